// Coupled rollouts: dy/dt = R^(y) + C over many closure steps, R^ a built-in system or a Python function,
// with the arithmetic of `mac rollout` (mac/held_rk4.hpp) on all columns at once.
#include <cmath>
#include <functional>
#include <limits>
#include <mac/held_rk4.hpp>
#include <mac/rollout.hpp>

#include "closure.hpp"
#include "network_rows.hpp"
#include "python_rhs.hpp"

namespace mac::python {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t steps_per_look = 64;  // at whether Ctrl-C was pressed

/// dydt (columns, d) of y (columns, d) at time t.
using BatchRhs = std::function<void(double t, const double* y, double* dydt)>;

struct Batch {
  std::size_t columns, d;
  std::size_t size() const { return columns * d; }
};

BatchRhs system_rhs(std::shared_ptr<const System> system, Batch batch) {
  return [system = std::move(system), batch](double, const double* y, double* dydt) {
    for (std::size_t i = 0; i < batch.columns; ++i) system->reduced_rhs(y + i * batch.d, dydt + i * batch.d);
  };
}

/// f(t, y) with y in the form the caller's initial state has.
BatchRhs python_rhs(const py::function& function, std::vector<py::ssize_t> shape) {
  return [function, shape = std::move(shape)](double t, const double* y, double* dydt) {
    call_rhs(function, t, shape, y, dydt);
  };
}

struct Plan {
  Batch batch;
  double start, dt;
  std::size_t steps, every;  // host steps in all, and between two saved times
  std::size_t pieces = 1;    // host steps in a closure step
  std::size_t times() const { return steps / every + 1; }
};

struct Result {
  Array resolved, closure, blow_up_time;  // (columns, times, d), (columns, times, c), (columns)
};

class Rollout {
 public:
  /// Without a closure `coupling` and `state` are null; `rows` are where the network reads all resolved variables.
  Rollout(Plan plan, BatchRhs rhs, runtime::Coupling* coupling, runtime::State* state, NetworkRows* rows)
      : plan_(plan),
        rhs_(std::move(rhs)),
        coupling_(coupling),
        state_(state),
        rows_(rows),
        room_(plan.batch.size()) {
    if (state_) coupling_->resume(*state_);
  }

  /// The network reads true states, (columns, times, d), the last of them a closure step before the rollout's first.
  void read(const Array& past) {
    const std::size_t size = plan_.batch.d;
    past_ = past.size() == 0 ? 0 : static_cast<std::size_t>(past.size()) / plan_.batch.size();
    std::vector<double> y(plan_.batch.size());
    for (std::size_t k = 0; k < past_; ++k) {
      for (std::size_t i = 0; i < plan_.batch.columns; ++i)
        std::copy_n(past.data() + (i * past_ + k) * size, size, y.data() + i * size);
      if (rows_) rows_->at_closure_step(k);
      coupling_->predict(*state_, y);
    }
  }

  /// y is left at the end, and the state ready for the step that would follow there.
  void run(std::vector<double>& y, double* resolved, double* closure, double* blow_up_time,
           const std::function<void()>& look_at_signals) {
    for (std::size_t n = 0; n <= plan_.steps; ++n) {
      const double t = plan_.start + static_cast<double>(n) * plan_.dt;
      for (std::size_t i = 0; i < plan_.batch.columns; ++i)
        rest_if_blown_up(y.data() + i * plan_.batch.d, t, blow_up_time[i]);
      if (rows_) rows_->at_closure_step(past_ + n / plan_.pieces);
      if (state_ && n < plan_.steps) coupling_->predict(*state_, y);
      if (state_ && n == plan_.steps) {
        runtime::State last(*state_);  // the state itself stays before it
        coupling_->predict(last, y);
      }
      if (n % plan_.every == 0) record(n / plan_.every, y, resolved, closure, blow_up_time);
      if (n < plan_.steps) advance(t, y);
      if (n % steps_per_look == 0) look_at_signals();
    }
  }

 private:
  /// A column that has blown up is NaN in the results, and zero here: finite for the others' sake.
  void rest_if_blown_up(double* y, double t, double& blow_up_time) const {
    const bool sound =
        std::all_of(y, y + plan_.batch.d, [](double v) { return std::abs(v) < blow_up_bound; });
    if (!sound && std::isnan(blow_up_time)) blow_up_time = t;
    if (!std::isnan(blow_up_time)) std::fill_n(y, plan_.batch.d, 0.0);
  }

  void record(std::size_t row, const std::vector<double>& y, double* resolved, double* closure,
              const double* blow_up_time) const {
    const std::size_t d = plan_.batch.d, times = plan_.times();
    const std::size_t c = state_ ? coupling_->closure().size() / plan_.batch.columns : 0;
    for (std::size_t i = 0; i < plan_.batch.columns; ++i) {
      const bool lost = !std::isnan(blow_up_time[i]);
      for (std::size_t v = 0; v < d; ++v) resolved[(i * times + row) * d + v] = lost ? nan : y[i * d + v];
      for (std::size_t j = 0; j < c; ++j)
        closure[(i * times + row) * c + j] = lost ? nan : coupling_->closure()[i * c + j];
    }
  }

  void advance(double t, std::vector<double>& y) {
    const auto rhs = [&](double at, std::span<const double> states, std::span<double> rates) {
      rhs_(at, states.data(), rates.data());
    };
    if (coupling_) return coupling_->advance(t, rhs, y);
    held_rk4::step(
        {plan_.batch.columns, plan_.batch.d, 0, nullptr}, plan_.dt, room_,
        [&](std::size_t i, const double* at, double* rate) { rhs_(t + held_rk4::a(i) * plan_.dt, at, rate); },
        [](std::size_t, const double*) { return held_rk4::StageClosure{}; }, y.data());
  }

  Plan plan_;
  BatchRhs rhs_;
  runtime::Coupling* coupling_;
  runtime::State* state_;
  NetworkRows* rows_;
  std::size_t past_ = 0;        // closure steps that were read before the first
  held_rk4::StageArrays room_;  // without a coupling, which has its own
};

/// The equations that the closure's components belong to; `rows` say it of a network that reads more than the state.
std::vector<std::size_t> targets_for(const Closure& closure, const PySystem* system, const NetworkRows* rows,
                                     std::size_t d, const std::optional<std::vector<std::size_t>>& given) {
  std::vector<std::size_t> targets = rows ? rows->targets() : closure.model().closure_targets();
  const std::size_t c = rows ? targets.size() : closure.model().outputs();
  if (given) {
    targets = *given;
  } else if (rows) {
    return targets;
  } else if (system) {
    const auto own = system->system->closure_targets();
    targets.assign(own.begin(), own.end());
  } else if (targets.empty()) {
    throw UsageError(
        "{}: has {} closure components for {} variables; say in `targets` to which equation each belongs",
        closure.name(), c, d);
  }
  if (targets.size() != c)
    throw UsageError("there are {} targets for {} closure components", targets.size(), c);
  for (const std::size_t target : targets)
    if (target >= d) throw UsageError("target {} is beyond the {} variables", target, d);
  return targets;
}

void check_system(const Closure& closure, const PySystem* system) {
  if (!system) return;
  if (const std::string own = closure.model().system(); !own.empty() && own != system->system->name())
    throw UsageError("{}: is a closure for {}, the right-hand side is that of {}", closure.name(), own,
                     system->system->name());
}

/// Of a network that reads the resolved variables.
void check_sizes(const Closure& closure, std::size_t d, const PySystem* system) {
  if (closure.model().inputs() != d)
    throw UsageError("{}: reads {} variables, y0 has {}", closure.name(), closure.model().inputs(), d);
  if (system && closure.model().outputs() != system->system->closure_size())
    throw UsageError("{}: has {} closure components, {} has {}", closure.name(), closure.model().outputs(),
                     system->system->name(), system->system->closure_size());
}

struct Request {
  double start, dt;
  std::size_t steps, every;
  std::optional<std::string> hold;
  std::optional<std::vector<std::size_t>> targets;
  bool continued;
  GivenArrays given;
  Array past;
};

/// y0 (d) or (columns, d)
Result roll_out(const py::object& rhs, const Array& y0, Closure* closure, const Request& request) {
  if (y0.ndim() < 1 || y0.ndim() > 2 || y0.size() == 0)
    throw UsageError("y0 has shape {}, expected (variables,) or (columns, variables)", shape_text(y0));
  const bool one = y0.ndim() == 1;
  const Batch batch{static_cast<std::size_t>(one ? 1 : y0.shape(0)),
                    static_cast<std::size_t>(y0.shape(y0.ndim() - 1))};
  const PySystem* system = py::isinstance<PySystem>(rhs) ? rhs.cast<const PySystem*>() : nullptr;
  if (system && system->system->resolved_size() != batch.d)
    throw UsageError("y0 has {} variables, {} has {}", batch.d, system->system->name(),
                     system->system->resolved_size());
  if (system && !system->system->has_equations()) throw UsageError("recorded data come without equations");
  if (!system && !py::isinstance<py::function>(rhs) && PyCallable_Check(rhs.ptr()) == 0)
    throw UsageError("rhs is neither a function f(t, y) nor a mac.System nor the name of one");

  Plan plan{batch, request.start, request.dt, request.steps, request.every};
  std::optional<runtime::Coupling> coupling;
  std::unique_ptr<NetworkRows> rows;
  std::unique_lock<std::mutex> claimed;
  runtime::State* state = nullptr;
  if (closure) {
    check_system(*closure, system);
    rows =
        NetworkRows::of(*closure, system ? system->system : nullptr, batch.d, batch.columns, request.given);
    if (!rows) check_sizes(*closure, batch.d, system);
    runtime::CouplingOptions options{batch.columns,
                                     request.hold ? hold_from(*request.hold) : closure->model().hold(),
                                     targets_for(*closure, system, rows.get(), batch.d, request.targets)};
    if (rows) options.rows = rows->coupling_rows();
    coupling.emplace(closure->model(), request.dt, options);
    if (const auto step = closure->model().closure_step())
      plan.pieces = std::max<std::size_t>(1, runtime::detail::whole_ratio(*step, request.dt));
    if (request.continued && closure->within_step())
      throw UsageError(
          "{}: the last rollout ended within a closure step, where memory cannot be continued: end it a "
          "whole number of closure steps after its start",
          closure->name());
    const std::size_t network_columns = batch.columns * (rows ? rows->rows() : 1);
    if (!request.continued) closure->reset(network_columns);
    claimed = closure->claim();
    closure->set_within_step(plan.steps % plan.pieces != 0);
    state = &closure->whole_state_for(network_columns);
    if (closure->limits() && coupling->hold() == Hold::stage)
      throw UsageError(
          "{}: has limits, which closures within a step would not know: use the hold zero or linear",
          closure->name());
  }

  const auto columns = static_cast<py::ssize_t>(batch.columns),
             times = static_cast<py::ssize_t>(plan.times());
  Result result{
      make_array({columns, times, static_cast<py::ssize_t>(batch.d)}),
      make_array({columns, times,
                  static_cast<py::ssize_t>(coupling ? coupling->closure().size() / batch.columns : 0)}),
      make_array({columns})};
  double* const resolved = result.resolved.mutable_data();
  double* const closures = result.closure.mutable_data();
  double* const blow_up_time = result.blow_up_time.mutable_data();
  std::fill_n(blow_up_time, batch.columns, nan);
  std::vector<double> y(y0.data(), y0.data() + y0.size());
  if (system) {
    Rollout rollout(plan, system_rhs(system->system, batch), coupling ? &*coupling : nullptr, state,
                    rows.get());
    rollout.read(request.past);
    const py::gil_scoped_release release;
    const InterruptScope interrupts;
    rollout.run(y, resolved, closures, blow_up_time, [] { throw_if_interrupted(); });
  } else {
    std::vector<py::ssize_t> shape(y0.shape(), y0.shape() + y0.ndim());
    Rollout rollout(plan, python_rhs(py::reinterpret_borrow<py::function>(rhs), std::move(shape)),
                    coupling ? &*coupling : nullptr, state, rows.get());
    rollout.read(request.past);
    rollout.run(y, resolved, closures, blow_up_time, [] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    });
  }
  return result;
}

}  // namespace

void bind_rollout(py::module_& module) {
  module.def(
      "roll_out",
      [](const py::object& rhs, const Array& y0, double start, double dt, std::size_t steps,
         std::size_t every, Closure* closure, std::optional<std::string> hold,
         std::optional<std::vector<std::size_t>> targets, bool continued,
         std::vector<std::string> given_names, const Array& given, const Array& past) {
        const Result result = roll_out(rhs, y0, closure,
                                       {start,
                                        dt,
                                        steps,
                                        every,
                                        std::move(hold),
                                        std::move(targets),
                                        continued,
                                        {std::move(given_names), given},
                                        past});
        return py::make_tuple(result.resolved, result.closure, result.blow_up_time);
      },
      py::arg("rhs"), py::arg("y0"), py::arg("start"), py::arg("dt"), py::arg("steps"), py::arg("every"),
      py::arg("closure"), py::arg("hold"), py::arg("targets"), py::arg("continued"), py::arg("given_names"),
      py::arg("given"), py::arg("past"));
}

}  // namespace mac::python
