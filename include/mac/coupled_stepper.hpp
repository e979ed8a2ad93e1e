// The time integration of a right-hand side with a closure, on top of mac/runtime_state.hpp. The way in is
// mac/runtime.hpp.
#pragma once

#include <functional>
#include <mac/runtime_state.hpp>

namespace mac::runtime {

/// What a network reads and gives where that is not a column's variables and closure themselves: forcing beside them, or
/// a row for every site of a lattice. Both functions are of all columns at once.
struct CouplingRows {
  std::size_t variables = 0, closures = 0;  // of a column
  std::size_t rows = 1;                     // of the network for a column, which are columns of its state
  /// y (columns, variables) -> x (columns * rows, inputs)
  std::function<void(std::span<const double> y, std::span<double> x)> read = {};
  /// u (columns * rows, outputs) -> closure (columns, closures)
  std::function<void(std::span<const double> u, std::span<double> closure)> give = {};
};

/// How a Coupling couples; what is left empty is as the model says.
struct CouplingOptions {
  std::size_t columns = 1;
  std::optional<Hold> hold = std::nullopt;
  std::vector<std::size_t> targets = {};  // closure component j is added to equation targets[j]
  std::optional<CouplingRows> rows = std::nullopt;
};

/// The coupled step of a batch of columns (mac/held_rk4.hpp), all of it but the memory, which is a State.
/// Arrays are (columns, variables) and (columns, closures): the network's inputs and outputs, unless the options
/// say otherwise. A step does not allocate.
class Coupling {
 public:
  /// dt is the host's step: the model's closure step, where its file says, or a whole fraction or multiple of it.
  Coupling(const Model& model, double dt, const CouplingOptions& options = {})
      : dt_(dt),
        held_{options.hold.value_or(model.hold()), model.target()},
        columns_(options.columns),
        rows_(options.rows),
        variables_(rows_ ? rows_->variables : model.inputs()),
        targets_(options.targets),
        closure_(options.columns * (rows_ ? rows_->closures : model.outputs())),
        previous_(closure_.size()),
        room_(options.columns * variables_) {
    if (!(dt > 0)) throw Error(MAC_INVALID_ARGUMENT, "dt is " + std::to_string(dt) + ": expected > 0");
    if (const auto step = model.closure_step()) {
      pieces_ = detail::whole_ratio(*step, dt);
      closure_steps_ = detail::whole_ratio(dt, *step);
      if (pieces_ == 0 && closure_steps_ == 0)
        throw Error(MAC_INVALID_ARGUMENT,
                    "dt is " + std::to_string(dt) + ": the model was trained for a closure step of " +
                        std::to_string(*step) + ", of which it is neither a whole fraction nor a multiple");
      pieces_ = std::max<std::size_t>(1, pieces_);
      closure_steps_ = std::max<std::size_t>(1, closure_steps_);
    }
    const std::size_t closures = closure_.size() / columns_;
    if (targets_.empty() && !rows_) targets_ = model.closure_targets();
    if (targets_.empty())
      throw Error(MAC_INVALID_ARGUMENT, "the model has " + std::to_string(closures) +
                                            " closure components for " + std::to_string(variables_) +
                                            " variables: say in targets to which equation each belongs");
    detail::expect_size("targets", targets_.size(), closures);
    for (const std::size_t target : targets_)
      if (target >= variables_)
        throw Error(MAC_INVALID_ARGUMENT, "closure target " + std::to_string(target) + " is beyond the " +
                                              std::to_string(variables_) + " variables of a column");
    if (rows_) {
      x_.resize(columns_ * rows_->rows * model.inputs());
      u_.resize(columns_ * rows_->rows * model.outputs());
    }
    if (held_.hold != Hold::stage) return;
    if (held_.target == Target::mean)
      throw Error(
          MAC_INVALID_ARGUMENT,
          "the model predicts step means, which are not closures at a stage: use the hold zero or linear");
    before_.emplace(model, columns_ * rows_of_column());
    of_stage_.emplace(model, columns_ * rows_of_column());
  }

  /// Goes on with a state that was restored, whose columns changed, or that others stepped.
  void resume(const State& state) {
    if (state.steps() > 0) {
      state.closure_at(Hold::zero, 0, rows_ ? u_ : closure_);
      if (rows_) rows_->give(u_, closure_);
    }
    piece_ = 0;
    at_rest_.clear();
    for (std::size_t j = 0; j < columns_; ++j)
      if (state.steps(j * rows_of_column()) == 0) at_rest_.push_back(j);
  }

  /// closure() at y; the state goes one step on, where a closure step begins.
  void predict(State& state, std::span<const double> y) {
    state_ = &state;
    if (piece_ > 0) return;
    if (before_) {  // the stages share the frame of the step
      if (rows_) rows_->read(y, x_);
      state.set_frame(rows_ ? std::span<const double>(x_) : y);
      before_->copy(state);
    }
    step_network(state, y, previous_);
    std::swap(closure_, previous_);
    has_previous_ = state.steps() > 1;
    const std::size_t outputs = targets_.size();
    for (const std::size_t j : at_rest_)  // no prediction before: the line through two equal ones is constant
      std::copy_n(closure_.data() + j * outputs, outputs, previous_.data() + j * outputs);
    at_rest_.clear();
  }

  /// y from t to t + dt, after predict(). rhs(t, y, dydt) is that of all columns at once, on spans.
  template <class Rhs>
  void advance(double t, Rhs&& rhs, std::span<double> y) {
    detail::expect_size("y", y.size(), columns_ * variables_);
    const double h = dt_ / static_cast<double>(closure_steps_);
    for (std::size_t k = 0; k < closure_steps_; ++k) {
      if (k > 0) predict(*state_, y);
      advance_piece(t + static_cast<double>(k) * h, h, rhs, y);
      piece_ = (piece_ + 1) % pieces_;
    }
  }

  /// Whether the host stands at the beginning of a closure step, where the state alone is all of the memory.
  bool at_closure_step() const { return piece_ == 0; }

  /// The last prediction.
  std::span<const double> closure() const { return closure_; }
  Hold hold() const { return held_.hold; }
  double dt() const { return dt_; }

 private:
  std::size_t rows_of_column() const { return rows_ ? rows_->rows : 1; }

  void step_network(State& state, std::span<const double> y, std::span<double> closure) {
    if (!rows_) return state.step(y, closure);
    rows_->read(y, x_);
    state.step(x_, u_);
    rows_->give(u_, closure);
  }

  template <class Rhs>
  void advance_piece(double t, double h, Rhs& rhs, std::span<double> y) {
    const std::size_t n = columns_ * variables_;
    const auto fraction = [&](std::size_t i) {  // of the closure step
      return (static_cast<double>(piece_) + held_rk4::a(i)) / static_cast<double>(pieces_);
    };
    held_rk4::step(
        {columns_, variables_, targets_.size(), targets_.data()}, h, room_,
        [&](std::size_t i, const double* at, double* rate) {
          rhs(t + held_rk4::a(i) * h, std::span<const double>(at, n), std::span<double>(rate, n));
        },
        [&](std::size_t i, const double* at) -> held_rk4::StageClosure {
          if (!before_ || fraction(i) == 0)
            return {closure_.data(), previous_.data(), held_rk4::share(held_, has_previous_, fraction(i))};
          of_stage_->copy(*before_);
          step_network(*of_stage_, {at, n}, previous_);  // which the hold stage has no other use for
          return {previous_.data(), nullptr, 0};
        },
        y.data());
  }

  double dt_;
  std::size_t pieces_ = 1, closure_steps_ = 1;  // host steps in a closure step, or the other way round
  std::size_t piece_ = 0;                       // host steps since a closure step began
  State* state_ = nullptr;                      // of the last predict()
  HeldClosure held_;
  std::size_t columns_;
  std::optional<CouplingRows> rows_;
  std::size_t variables_;  // of a column
  std::vector<std::size_t> targets_;
  std::vector<double> closure_, previous_;  // (columns, closures)
  std::vector<double> x_, u_;               // of the network, where it has rows of its own
  bool has_previous_ = false;
  std::vector<std::size_t> at_rest_;  // columns whose next step is their first, while others have taken some
  held_rk4::StageArrays room_;
  std::optional<State> before_, of_stage_;  // hold stage: the memory before the step, and that of a stage
};

/// Advances a right-hand side together with the closure: the arithmetic, and so the bits, of `mac rollout`.
/// Rhs is called as rhs(y, dydt) or rhs(t, y, dydt) with spans of one column (inputs).
template <class Rhs>
class CoupledStepper {
 public:
  CoupledStepper(const Model& model, double dt, Rhs rhs, const CouplingOptions& options = {})
      : state_(model, options.columns), coupling_(model, dt, options), rhs_(std::move(rhs)) {}

  /// y (columns, inputs) from t to t + dt.
  void step(std::span<double> y, double t = 0) {
    coupling_.predict(state_, y);
    coupling_.advance(
        t,
        [&](double at, std::span<const double> states, std::span<double> rates) {
          const std::size_t n = state_.inputs();
          for (std::size_t k = 0; k < states.size(); k += n)
            evaluate(at, states.subspan(k, n), rates.subspan(k, n));
        },
        y);
  }

  /// The closure (columns, outputs) of the last step.
  std::span<const double> closure() const { return coupling_.closure(); }
  Hold hold() const { return coupling_.hold(); }
  double dt() const { return coupling_.dt(); }
  std::uint64_t steps() const { return state_.steps(); }

  // The memory, to save and restore beside y; a restored stepper goes on bit for bit.
  const State& state() const { return state_; }
  std::vector<std::byte> save() const {
    expect_closure_step("a stepper is saved");
    return state_.save();
  }
  void restore(std::span<const std::byte> saved) {
    state_.restore(saved);
    coupling_.resume(state_);
  }
  void reset() {
    state_.reset();
    coupling_.resume(state_);
  }

  // The same of some columns, see State. All columns begin their closure steps together.
  std::vector<std::byte> save_columns(std::span<const std::size_t> columns) const {
    expect_closure_step("columns are saved");
    return state_.save_columns(columns);
  }
  void restore_columns(std::span<const std::byte> saved, std::span<const std::size_t> from,
                       std::span<const std::size_t> to) {
    expect_closure_step("columns are restored");
    state_.restore_columns(saved, from, to);
    coupling_.resume(state_);
  }
  void reset_columns(std::span<const std::size_t> columns) {
    expect_closure_step("columns are reset");
    state_.reset_columns(columns);
    coupling_.resume(state_);
  }

 private:
  void expect_closure_step(const std::string& what) const {
    if (!coupling_.at_closure_step())
      throw Error(MAC_INVALID_ARGUMENT, what + " where a closure step begins, not within one");
  }
  void evaluate(double t, std::span<const double> y, std::span<double> dydt) {
    if constexpr (std::is_invocable_v<Rhs&, double, std::span<const double>, std::span<double>>)
      rhs_(t, y, dydt);
    else
      rhs_(y, dydt);
  }

  State state_;
  Coupling coupling_;
  Rhs rhs_;
};

}  // namespace mac::runtime
