// The compiled half of the Python package `mac`: thin over the library; docs/python.md is its reference page.
#include "module.hpp"

#include <mac/runtime.hpp>
#include <mac/version.hpp>

namespace mac::python {

namespace {

PyObject* error_type = nullptr;        // mac.Error(RuntimeError)
PyObject* usage_error_type = nullptr;  // mac.UsageError(mac.Error, ValueError)

/// A request that could not be meant, rather than a failure on the way.
bool is_usage(mac_status status) { return status == MAC_INVALID_ARGUMENT || status == MAC_BAD_STATE; }

void translate(std::exception_ptr exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const Interrupted&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const UsageError& error) {
    PyErr_SetString(usage_error_type, error.what());
  } catch (const Error& error) {
    PyErr_SetString(error_type, error.what());
  } catch (const runtime::Error& error) {
    PyErr_SetString(is_usage(error.status()) ? usage_error_type : error_type, error.what());
  }
}

void bind_errors(py::module_& module) {
  error_type = PyErr_NewExceptionWithDoc("mac.Error", "A failure: the sentence says what and where.",
                                         PyExc_RuntimeError, nullptr);
  const py::tuple bases = py::make_tuple(py::handle(error_type), py::handle(PyExc_ValueError));
  usage_error_type = PyErr_NewExceptionWithDoc(
      "mac.UsageError", "A wrong request: an argument, an experiment.", bases.ptr(), nullptr);
  module.add_object("Error", error_type);
  module.add_object("UsageError", usage_error_type);
  py::register_exception_translator(translate);
}

}  // namespace

}  // namespace mac::python

PYBIND11_MODULE(_mac, module) {
  using namespace mac::python;
  module.doc() = "The compiled half of the package mac.";
  module.attr("__version__") = mac::version();
  bind_errors(module);
  bind_closure(module);
  bind_derivatives(module);
  bind_hosts(module);
  bind_study(module);
  bind_array_runs(module);
  bind_rollout(module);
}
