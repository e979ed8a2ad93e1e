// Closures that see Fourier modes in the frame of a column's first state: exactly equivariant under translations, with an
// angle that belongs to the memory.
#include <gtest/gtest.h>
#include <mac/mac.h>

#include <cmath>
#include <limits>
#include <mac/config.hpp>
#include <mac/runtime.hpp>
#include <mac/system.hpp>

#include "coupling/fourier_frame.hpp"
#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

constexpr std::size_t d = 6, columns = 4, steps = 8, width = columns * d;
using Numbers = std::vector<double>;

/// Every row (d), those of column j by j + 1 radians.
Numbers moved(Numbers rows) {
  Numbers factors(d);
  for (std::size_t k = 0; k < rows.size(); k += d) {
    fourier_factors(d / 2, static_cast<double>(k / d % columns + 1), factors.data());
    turn_modes(d / 2, factors.data(), rows.data() + k);
  }
  return rows;
}

double largest_difference(const Numbers& a, const Numbers& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

class RuntimeFrame : public ::testing::Test {
 protected:
  RuntimeFrame()
      : model_(write_closure(folder_, framed_burgers_closure(LayerKind::gru)), Precision::float64) {}

  std::span<const double> at(std::size_t t) const { return std::span(y_).subspan(t * width, width); }
  Numbers run(runtime::State& state, const Numbers& y, std::size_t first = 0) const {
    Numbers closures((steps - first) * width);
    for (std::size_t t = first; t < steps; ++t)
      state.step(std::span(y).subspan(t * width, width),
                 std::span(closures).subspan((t - first) * width, width));
    return closures;
  }

  ScratchFolder folder_;
  runtime::Model model_;
  Numbers y_ = random_inputs(steps, columns, d);
};

TEST_F(RuntimeFrame, MovedStatesHaveMovedClosures) {
  runtime::State state(model_, columns), other(model_, columns);
  const Numbers closures = run(state, y_);
  EXPECT_LT(largest_difference(run(other, moved(y_)), moved(closures)),
            1e-14);  // rounding of closures of order .1
  const runtime::Model plain(write_closure(folder_, burgers_closure(LayerKind::gru), "plain.safetensors"),
                             Precision::float64);
  runtime::State a(plain, columns), b(plain, columns);
  const Numbers of_plain = run(a, y_);
  EXPECT_GT(largest_difference(run(b, moved(y_)), moved(of_plain)), 1e-3) << "what others have";
}

TEST_F(RuntimeFrame, AMovedInitialStateHasAMovedRollout) {
  const auto system = make_system(ConfigTable::parse("name = 'burgers'\ngrid = 32", "test.toml"));
  const auto rhs = [&](std::span<const double> y, std::span<double> dydt) {
    system->reduced_rhs(y.data(), dydt.data());
  };
  for (const Hold hold : {Hold::zero, Hold::linear, Hold::stage}) {
    const runtime::CouplingOptions options{.columns = columns, .hold = hold};
    runtime::CoupledStepper here(model_, 0.01, rhs, options), there(model_, 0.01, rhs, options);
    Numbers y(at(0).begin(), at(0).end()), z = moved(y);
    for (std::size_t n = 0; n < 100; ++n) here.step(y), there.step(z);
    EXPECT_LT(largest_difference(z, moved(y)), 1e-13) << "rounding, 100 steps of it";
  }
}

TEST_F(RuntimeFrame, TravelsWithTheMemory) {
  runtime::State whole(model_, columns);
  const Numbers expected = run(whole, y_);
  for (const std::size_t stop : {0u, 1u, 5u}) {
    runtime::State first(model_, columns);
    Numbers closure(width);
    for (std::size_t t = 0; t < stop; ++t) first.step(at(t), closure);
    runtime::State restored(model_, columns), copied(model_, columns), by_columns(model_, columns),
        clone = first;
    by_columns.step(at(2), closure);  // has a frame of its own that must not stay
    restored.restore(first.save());
    copied.copy(first);
    const std::size_t all[] = {0, 1, 2, 3};
    by_columns.restore_columns(first.save_columns(all), all, all);
    for (runtime::State* state : {&restored, &copied, &by_columns, &clone}) {
      const Numbers rest = run(*state, y_, stop);
      EXPECT_TRUE(
          std::equal(rest.begin(), rest.end(), expected.end() - static_cast<std::ptrdiff_t>(rest.size())))
          << stop;
    }
  }
}

TEST_F(RuntimeFrame, IsChosenAnewAfterAReset) {
  runtime::State state(model_, columns);
  run(state, moved(y_));
  state.reset();
  runtime::State fresh(model_, columns);
  EXPECT_EQ(run(state, y_), run(fresh, y_));
}

TEST_F(RuntimeFrame, IsNotThatOfAStepThatWasRefused) {
  runtime::State state(model_, columns), fresh(model_, columns);
  Numbers wrong = moved(Numbers(at(0).begin(), at(0).end())), closure(width);
  wrong[2 * d + 4] = std::numeric_limits<double>::quiet_NaN();
  try {
    state.step(wrong, closure);
    ADD_FAILURE();
  } catch (const runtime::Error& error) {
    EXPECT_NE(std::string(error.what()).find("nan in column 2, component 4 (psi2)"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(state.set_frame(wrong), runtime::Error);
  EXPECT_EQ(run(state, y_), run(fresh, y_));
}

TEST_F(RuntimeFrame, MayBeSetBeforeTheFirstStep) {
  runtime::State state(model_, columns), first(model_, columns);
  state.set_frame(at(3));
  Numbers closure(width), expected(width), unset(width);
  first.step(at(0), unset);
  state.step(at(0), closure);
  EXPECT_NE(closure, unset);
  // The closure of at(0) in the frame of at(3), by a model without frames.
  Model without = framed_burgers_closure(LayerKind::gru);
  without.inputs.frame = Frame::none;
  const runtime::Model plain(write_closure(folder_, without, "plain.safetensors"), Precision::float64);
  ColumnFrames frames(d / 2, columns);
  Numbers y(at(0).begin(), at(0).end());
  for (std::size_t j = 0; j < columns; ++j) {
    frames.choose(j, at(3).data() + j * d);
    frames.enter(j, y.data() + j * d);
  }
  plain.state(columns).step(y, expected);
  for (std::size_t j = 0; j < columns; ++j) frames.leave(j, expected.data() + j * d);
  EXPECT_EQ(closure, expected);
}

// At a state with a frame, so that it is held fixed in the differences as well.
TEST_F(RuntimeFrame, HasExactDerivatives) {
  runtime::State state(model_, columns);
  Numbers closure(width);
  for (std::size_t t = 0; t < 3; ++t) state.step(at(t), closure);
  const std::size_t memory = columns * state.memory_size();
  RandomStream random(2, Purpose::test_data, 0);
  const auto normals = [&](std::size_t n) {
    Numbers numbers(n);
    for (double& number : numbers) number = random.normal();
    return numbers;
  };
  const Numbers y(at(3).begin(), at(3).end()), dy = normals(width), dm = normals(memory), g = normals(width),
                                               gm = normals(memory), before = state.memory();
  Numbers tangent(width), tangent_memory = dm, gradient(width), gradient_memory = gm, jacobian(width * d);
  state.step_tangent(y, dy, tangent_memory, tangent);
  state.step_adjoint(y, g, gradient_memory, gradient);
  state.step_jacobian(y, jacobian);

  const double h = 1e-5;  // errors h² and 1e-16/h: both near 1e-10
  const auto step = [&](double by) {
    runtime::State there = state;
    Numbers moved_y = y, moved_memory = before, out(width);
    for (std::size_t i = 0; i < width; ++i) moved_y[i] += by * dy[i];
    for (std::size_t i = 0; i < memory; ++i) moved_memory[i] += by * dm[i];
    there.set_memory(moved_memory);
    there.step(moved_y, out);
    return out;
  };
  const Numbers up = step(h), down = step(-h);
  for (std::size_t i = 0; i < width; ++i) EXPECT_NEAR(tangent[i], (up[i] - down[i]) / (2 * h), 1e-8);

  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < width; ++i) forward += tangent[i] * g[i], backward += dy[i] * gradient[i];
  for (std::size_t i = 0; i < memory; ++i)
    forward += tangent_memory[i] * gm[i], backward += dm[i] * gradient_memory[i];
  EXPECT_NEAR(forward, backward, 1e-12 * std::abs(forward));

  Numbers of_y(width), none(memory);
  state.step_tangent(y, dy, none, of_y);
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < d; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < d; ++k) sum += jacobian[(j * d + i) * d + k] * dy[j * d + k];
      EXPECT_NEAR(sum, of_y[j * d + i], 1e-13);
    }
}

TEST_F(RuntimeFrame, ItsFallbackIsTheHosts) {
  Model model = framed_burgers_closure(LayerKind::gru);
  model.training_range =
      TrainingRange{Numbers(d, -1e-6), Numbers(d, 1e-6), Numbers(d, -1), Numbers(d, 1), {}, {}};
  const runtime::Model narrow(write_closure(folder_, model, "narrow.safetensors"));
  runtime::State state(narrow, columns);
  state.set_limits({.closure = runtime::Limit::fade, .fade = 1e-3});
  Numbers fallback(width), closure(width);
  for (std::size_t i = 0; i < width; ++i) fallback[i] = 0.1 * static_cast<double>(i);
  state.set_fallback(fallback);
  state.step(at(0), closure);
  EXPECT_LT(largest_difference(closure, fallback), 1e-14) << "turned there and back";
}

TEST_F(RuntimeFrame, ANetworkOfAnotherFrameIsAnotherModel) {
  Model without = framed_burgers_closure(LayerKind::gru);
  without.inputs.frame = Frame::none;
  const runtime::Model plain(write_closure(folder_, without, "plain.safetensors"), Precision::float64);
  EXPECT_NE(plain.id(), model_.id());
  EXPECT_EQ(model_.metadata("frame"), "initial");
  runtime::State state(plain, columns);
  EXPECT_NO_THROW(state.set_frame(at(0))) << "which has no meaning for it";
  EXPECT_THROW(state.restore(runtime::State(model_, columns).save()), runtime::Error);
}

}  // namespace
}  // namespace mac::test
