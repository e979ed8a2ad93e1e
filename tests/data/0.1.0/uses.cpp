// What mac/runtime.hpp and mac/own_system.hpp had in 0.1.0, every name used once. It is compiled, never run.
#include <mac/own_system.hpp>
#include <mac/runtime.hpp>

struct Oscillator {
  double k;
  explicit Oscillator(const mac::ConfigTable& system) : k(system.number_or("k", 0.8)) {}
  std::vector<std::string> resolved_names() const { return {"x"}; }
  std::vector<std::size_t> closure_targets() const { return {0}; }
  std::size_t full_size() const { return 2; }
  template <class Scalar>
  void reduced_rhs(const Scalar* y, Scalar* dydt) const {
    dydt[0] = -y[0];
  }
  void full_rhs(const double* z, double* dzdt) const {
    reduced_rhs(z, dzdt);
    dzdt[0] += k * z[1];
    dzdt[1] = -z[0];
  }
  void sample(mac::RandomStream& random, std::span<double> z) const { z[0] = random.uniform(-1, 1); }
};
void of_systems() { mac::register_system<Oscillator>("oscillator"); }

namespace runtime = mac::runtime;

void of_models(std::span<const std::byte> bytes) {
  runtime::Model model("a.safetensors", runtime::Precision::float64), other(bytes, "name");
  const std::size_t sizes = model.inputs() + model.outputs() + model.parameters();
  const runtime::Precision precision = model.precision();
  const std::string texts = model.kind() + model.system() + model.input_name(0) + model.output_name(0);
  const std::optional<double> dt = model.closure_step();
  const std::vector<std::size_t> targets = model.closure_targets();
  const runtime::Hold hold = model.hold();
  const runtime::Target target = model.target();
  const std::optional<std::string> recipe = model.metadata("recipe");
  const std::uint64_t id = model.id();
  const runtime::Normalisation scales = model.normalisation();
  const mac_model* handle = model.get();
  static_cast<void>(std::tie(sizes, precision, texts, dt, targets, hold, target, recipe, id, handle));
  static_cast<void>(std::tie(scales.input_mean, scales.input_scale, scales.output_mean, scales.output_scale));
}

void of_states(const runtime::Model& model, std::span<double> y, std::span<float> single,
               std::span<const std::size_t> columns) {
  runtime::State state = model.state(3), other(model, 3);
  std::uint64_t counts = state.columns() + state.inputs() + state.outputs() + state.steps() + state.steps(0);
  state.step(y, y);
  state.step(single, single);
  state.step(y.data(), runtime::Stride{1, 2}, y.data(), runtime::Stride{1, 2});
  state.step(single.data(), {1, 2}, single.data(), {1, 2});
  state.closure_at(runtime::Hold::linear, 0.5, y);
  state.copy(other);
  state.reset();
  std::vector<std::byte> saved = state.save();
  counts += state.saved_size() + state.memory_size();
  state.save(std::span(saved));
  state.restore(saved);
  saved = state.save_columns(columns);
  state.restore_columns(saved, columns, columns);
  state.reset_columns(columns);
  state.copy_columns(other, columns, columns);
  state.set_memory(state.memory());
  state.step_tangent(y, y, y, y);
  state.step_adjoint(y, y, y, y);
  state.step_jacobian(y, y);
  runtime::Tape tape(model, 3, 10);
  tape.step(state, y, y);
  tape.tangent(0, y, y, y);
  tape.adjoint(0, y, y, y);
  counts += tape.steps();
  tape.clear();
  static_cast<void>(counts);
}

void of_couplings(const runtime::Model& model, runtime::State& state, std::vector<double>& y,
                  std::span<const std::size_t> columns) {
  const auto rhs = [](std::span<const double> from, std::span<double> rate) { rate[0] = -from[0]; };
  const auto timed = [](double, std::span<const double> from, std::span<double> rate) { rate[0] = -from[0]; };
  runtime::CouplingOptions options{.columns = 2, .hold = runtime::Hold::zero, .targets = {0}};
  runtime::Coupling coupling(model, 0.1, options);
  coupling.resume(state);
  coupling.predict(state, y);
  coupling.advance(0.0, timed, y);
  runtime::CoupledStepper stepper(model, coupling.dt(), rhs, options);
  runtime::CoupledStepper driven(model, 0.1, timed);
  stepper.step(y);
  driven.step(y, 0.1);
  stepper.restore(stepper.save());
  stepper.restore_columns(stepper.save_columns(columns), columns, columns);
  stepper.reset_columns(columns);
  stepper.reset();
  const bool same = stepper.hold() == coupling.hold() && stepper.dt() == coupling.dt() &&
                    stepper.steps() == stepper.state().steps() &&
                    stepper.closure().size() == coupling.closure().size();
  static_cast<void>(same);
}

mac_status of_errors(const runtime::Error& error) { return error.status(); }
