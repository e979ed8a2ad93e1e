// Systems whose equations are Python functions: full(z), reduced(y) and sample(rng), registered by name for the
// rest of the process, so that experiments of this process name them like any other.
#include "function_system.hpp"

#include <mac/config.hpp>
#include <mac/random.hpp>
#include <mac/recorded.hpp>
#include <mac/rk4_solver.hpp>

#include "python_rhs.hpp"

namespace mac::python {

namespace {

/// What from_functions was given.
struct Functions {
  std::string name;
  py::object full, reduced, sample;
  py::object reduced_vjp;  // None: differences
  std::vector<std::string> resolved_names, closure_names;
  std::vector<std::size_t> targets;
  std::size_t full_size = 0;
  std::size_t warmup_steps = 0;
};
/// The last owner may be a thread without the GIL.
using SharedFunctions = std::shared_ptr<const Functions>;

std::map<std::string, SharedFunctions>& known_functions() {
  static auto* const the = new std::map<std::string, SharedFunctions>;  // outlives the interpreter
  return *the;
}

Array rows(std::size_t count, std::size_t n, const double* numbers) {
  return copied({static_cast<py::ssize_t>(count), static_cast<py::ssize_t>(n)}, numbers);
}

/// What a function gave, of the shape of `states`. The caller holds the GIL.
void take(const Functions& functions, const char* what, const py::object& result, const Array& states,
          double* out) {
  const Array rates =
      as_numbers(result, fmt::format("what {} of the system \"{}\" gave", what, functions.name));
  if (!rates || shape_text(rates) != shape_text(states))
    throw UsageError("{} of the system \"{}\" gave {}, expected an array of shape {}", what, functions.name,
                     rates ? "the shape " + shape_text(rates)
                           : py::str(py::type::of(result).attr("__name__")).cast<std::string>(),
                     shape_text(states));
  std::copy_n(rates.data(), rates.size(), out);
}

/// (count, n) -> (count, n). The caller holds the GIL.
void call(const Functions& functions, const py::object& function, const char* what, std::size_t count,
          std::size_t n, const double* in, double* out) {
  const Array states = rows(count, n, in);
  take(functions, what, function(states), states, out);
}

class FunctionSystem final : public System {
 public:
  explicit FunctionSystem(SharedFunctions functions) : is_(std::move(functions)) {}

  std::string_view name() const override { return is_->name; }
  const std::vector<std::string>& resolved_names() const override { return is_->resolved_names; }
  const std::vector<std::string>& closure_names() const override { return is_->closure_names; }
  std::span<const std::size_t> closure_targets() const override { return is_->targets; }

  void reduced_rhs(const double* y, double* dydt) const override { reduced_rhs_columns(1, y, dydt); }
  void reduced_rhs_columns(std::size_t count, const double* y, double* dydt) const override {
    const py::gil_scoped_acquire acquire;
    call(*is_, is_->reduced, "reduced", count, resolved_size(), y, dydt);
  }
  void reduced_rhs_vjp(const double*, const double*, double*) const override {
    throw Error("the system \"{}\" is differentiated by differences", is_->name);
  }

  std::size_t full_size() const override { return is_->full_size; }
  std::size_t warmup_steps() const override { return is_->warmup_steps; }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<Rk4Solver<WithClosure>>(*this, dt, WithClosure{is_, {}});
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (initial) initial->fail("", "this system has one distribution of initial states, its own");
    return std::make_unique<Sampled>(is_);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double>) const override { return {}; }

 private:
  struct WithClosure {
    SharedFunctions is;
    std::vector<double> rates;

    void operator()(const double* z, double* rate, double* closure) {
      rates.resize(is->resolved_names.size());
      const py::gil_scoped_acquire acquire;
      call(*is, is->full, "full", 1, is->full_size, z, rate);
      call(*is, is->reduced, "reduced", 1, rates.size(), z, rates.data());
      for (std::size_t j = 0; j < is->targets.size(); ++j)
        closure[j] = rate[is->targets[j]] - rates[is->targets[j]];
    }
    void resolved(const double* z, double* y) const { std::copy_n(z, is->resolved_names.size(), y); }
  };

  class Sampled final : public InitialCondition {
   public:
    explicit Sampled(SharedFunctions functions) : is_(std::move(functions)) {}
    void sample(std::size_t, RandomStream& random, std::span<double> state) const override {
      const py::gil_scoped_acquire acquire;
      py::list seed;
      for (int i = 0; i < 4; ++i) seed.append(random.bits());
      const py::object generator = py::module_::import("numpy.random").attr("default_rng")(seed);
      const py::object result = is_->sample(generator);
      const Array values =
          as_numbers(result, fmt::format("what sample of the system \"{}\" gave", is_->name));
      if (!values || values.ndim() != 1 || static_cast<std::size_t>(values.size()) != state.size())
        throw UsageError("sample of the system \"{}\" gave {}, expected an array of shape ({},)", is_->name,
                         values ? "the shape " + shape_text(values)
                                : py::str(py::type::of(result).attr("__name__")).cast<std::string>(),
                         state.size());
      std::copy_n(values.data(), state.size(), state.begin());
    }

   private:
    SharedFunctions is_;
  };

  SharedFunctions is_;
};

/// The gradient that Python gives; empty: by differences.
ColumnsVjp vjp_of(const SharedFunctions& functions) {
  if (functions->reduced_vjp.is_none()) return {};
  return [is = functions](std::size_t count, const double* y, const double* adjoint, double* grad) {
    const std::size_t d = is->resolved_names.size();
    std::vector<double> product(count * d);
    const py::gil_scoped_acquire acquire;
    const Array states = rows(count, d, y);
    take(*is, "reduced_vjp", is->reduced_vjp(states, rows(count, d, adjoint)), states, product.data());
    for (std::size_t k = 0; k < product.size(); ++k) grad[k] += product[k];
  };
}

/// The reduced model by columns, and its gradient: what with_reduced_rhs adds.
class Differentiated final : public System {
 public:
  Differentiated(const SharedFunctions& functions, ColumnsVjp vjp)
      : base_(std::make_shared<FunctionSystem>(functions)),
        columns_(with_reduced_rhs(
            base_,
            [base = base_](std::size_t count, const double* y, double* dydt) {
              base->reduced_rhs_columns(count, y, dydt);
            },
            std::move(vjp))) {}

  std::string_view name() const override { return base_->name(); }
  const std::vector<std::string>& resolved_names() const override { return base_->resolved_names(); }
  const std::vector<std::string>& closure_names() const override { return base_->closure_names(); }
  std::span<const std::size_t> closure_targets() const override { return base_->closure_targets(); }
  void reduced_rhs(const double* y, double* dydt) const override { base_->reduced_rhs(y, dydt); }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    columns_->reduced_rhs_vjp(y, adjoint, grad_y);
  }
  void reduced_rhs_columns(std::size_t count, const double* y, double* dydt) const override {
    base_->reduced_rhs_columns(count, y, dydt);
  }
  void reduced_rhs_vjp_columns(std::size_t count, const double* y, const double* adjoint,
                               double* grad_y) const override {
    columns_->reduced_rhs_vjp_columns(count, y, adjoint, grad_y);
  }
  bool calls_are_dear() const override { return true; }
  std::size_t full_size() const override { return base_->full_size(); }
  std::size_t warmup_steps() const override { return base_->warmup_steps(); }
  std::unique_ptr<FullSolver> make_solver(double dt) const override { return base_->make_solver(dt); }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    return base_->initial_condition(initial);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double> z) const override {
    return base_->diagnostics(z);
  }

 private:
  std::shared_ptr<const FunctionSystem> base_;
  std::shared_ptr<const System> columns_;
};

/// One state goes through all functions now: what is wrong with them shows before any work is done.
void try_out(const System& system) {
  std::vector<double> z(system.full_size()), rate(z.size()), reduced(system.resolved_size());
  RandomStream random(0, Purpose::diagnosis, 0);
  system.initial_condition(nullptr)->sample(0, random, z);
  system.make_solver(1)->full_rhs(z, rate);
  system.reduced_rhs(z.data(), reduced.data());
  for (const auto& [what, values] :
       {std::pair{"sample", &z}, std::pair{"full", &rate}, std::pair{"reduced", &reduced}})
    for (const double value : *values)
      if (!std::isfinite(value))
        throw UsageError("{} of the system \"{}\" gave {}", what, system.name(), value);
}

/// The gradient that Python gives beside differences.
void compare_gradients(const SharedFunctions& functions) {
  const Differentiated given(functions, vjp_of(functions)), differenced(functions, {});
  const std::size_t d = given.resolved_size();
  RandomStream random(0, Purpose::diagnosis, 0);
  std::vector<double> z(given.full_size()), adjoint(d), gradient(d), expected(d);
  given.initial_condition(nullptr)->sample(0, random, z);
  for (double& number : adjoint) number = random.normal();
  given.reduced_rhs_vjp(z.data(), adjoint.data(), gradient.data());
  differenced.reduced_rhs_vjp(z.data(), adjoint.data(), expected.data());
  double size = 0;
  for (const double value : expected) size = std::max(size, std::abs(value));
  for (std::size_t k = 0; k < d; ++k)
    if (!(std::abs(gradient[k] - expected[k]) <= 1e-4 * (1e-6 + size)))
      throw UsageError(
          "reduced_vjp of the system \"{}\" is not the derivative of reduced: for {} it gives {:g}, "
          "differences give {:g}",
          given.name(), given.resolved_names()[k], gradient[k], expected[k]);
}

}  // namespace

PySystem make_function_system(const std::string& name, const py::object& full, const py::object& reduced,
                              const py::object& sample, std::vector<std::string> resolved,
                              std::size_t full_size, std::vector<std::size_t> targets,
                              std::size_t warmup_steps, const py::object& reduced_vjp) {
  if (resolved.empty()) throw UsageError("a system needs the name of a resolved variable");
  if (full_size <= resolved.size())
    throw UsageError(
        "size is {}, expected more than the {} resolved variables, which come first in the state", full_size,
        resolved.size());
  std::vector<std::string> closures;
  for (const std::size_t target : targets) {
    if (target >= resolved.size())
      throw UsageError("targets has {}, but there are {} resolved variables", target, resolved.size());
    closures.push_back("C_" + resolved[target]);
  }
  if (closures.empty()) throw UsageError("targets is empty: there is nothing to close");
  SharedFunctions functions(new Functions{name, full, reduced, sample, reduced_vjp, std::move(resolved),
                                          std::move(closures), std::move(targets), full_size, warmup_steps},
                            [](const Functions* owned) {
                              const py::gil_scoped_acquire acquire;
                              delete owned;
                            });
  const auto make = [](const SharedFunctions& of) {
    return std::make_unique<Differentiated>(of, vjp_of(of));
  };
  std::shared_ptr<const System> system = make(functions);
  try_out(*system);
  if (!reduced_vjp.is_none()) compare_gradients(functions);
  if (!known_functions().contains(name))
    register_system(name, [name, make](const ConfigTable&) { return make(known_functions().at(name)); });
  known_functions()[name] = functions;  // a notebook's cell that runs again brings the new functions
  return {system};
}

}  // namespace mac::python
