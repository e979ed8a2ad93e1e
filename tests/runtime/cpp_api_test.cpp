// The C++ interface: the library's rollout to the last bit, restart, and exceptions that say what was wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <mac/data.hpp>
#include <mac/rollout.hpp>
#include <mac/runtime.hpp>
#include <numeric>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

constexpr std::size_t d = 6, trajectories = 5, times = 31;

struct CoupledCase {
  HeldClosure held;
  Dtype dtype;
  Frame frame = Frame::none;
};

/// Burgers' equation, and a rollout of it by the library to compare with.
class Coupled : public ::testing::TestWithParam<CoupledCase> {
 protected:
  Coupled() {
    generate(Experiment::parse("[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n"
                               "[data.test]\ntrajectories = 5\nhorizon = 0.3\n",
                               "study.toml"),
             folder_.file("data.h5"), {1, true});
    const DataFile data = DataFile::open(folder_.file("data.h5"));
    RolloutOptions options;
    options.quiet = true;
    rollout(*closure_of(data), data, folder_.file("out.h5"), options);
    rollout_ = RolloutFile::open(folder_.file("out.h5")).splits.front();
  }

  /// y (trajectories, d) of the rollout at time index n
  std::vector<double> at(std::size_t n) const {
    std::vector<double> y;
    for (std::size_t i = 0; i < trajectories; ++i) {
      const auto row = rollout_.resolved.begin() + static_cast<std::ptrdiff_t>((i * times + n) * d);
      y.insert(y.end(), row, row + d);
    }
    return y;
  }

  auto stepper(std::size_t columns = trajectories, double dt = 0.01) const {
    const auto system = DataFile::open(folder_.file("data.h5")).experiment().system;
    const auto rhs = [system](std::span<const double> y, std::span<double> dydt) {
      system->reduced_rhs(y.data(), dydt.data());
    };
    return runtime::CoupledStepper(runtime::Model(path_), dt, rhs, {.columns = columns});
  }

  std::unique_ptr<ClosureModel> closure_of(const DataFile& data) const {
    return make_network_closure(model_, "mac", GetParam().held, std::nullopt, data.experiment().system);
  }

  static Model model_of(const CoupledCase& one) {
    Model model = burgers_closure(LayerKind::mamba, one.held);
    model.dtype = one.dtype;
    model.inputs.frame = one.frame;
    return model;
  }

  ScratchFolder folder_;
  Model model_ = model_of(GetParam());
  std::string path_ = write_closure(folder_, model_);
  RolloutSplit rollout_;
};

TEST_P(Coupled, IsTheLibrarysRolloutToTheLastBit) {
  ASSERT_EQ(rollout_.time.size(), times);
  auto stepping = stepper();
  std::vector<double> y = at(0);
  for (std::size_t n = 0; n + 1 < times; ++n) {
    stepping.step(y);
    ASSERT_EQ(y, at(n + 1)) << "after step " << n;
  }
}

TEST_P(Coupled, TakesAHostStepThatIsAMultipleOfTheClosureStep) {
  auto stepping = stepper(trajectories, 0.03);
  std::vector<double> y = at(0);
  for (std::size_t n = 0; n + 3 < times; n += 3) {
    stepping.step(y);
    ASSERT_EQ(y, at(n + 3));
  }
}

TEST_P(Coupled, TakesAHostStepThatDividesTheClosureStepAsSubstepsOfARollout) {
  RolloutOptions options;
  options.quiet = true;
  generate(Experiment::parse(DataFile::open(folder_.file("data.h5")).experiment().config.text() +
                                 "[rollout]\nsubsteps = 2\n",
                             "study.toml"),
           folder_.file("halved.h5"), {1, true});
  const DataFile halved = DataFile::open(folder_.file("halved.h5"));
  rollout(*closure_of(halved), halved, folder_.file("halves.h5"), options);
  EXPECT_NE(RolloutFile::open(folder_.file("halves.h5")).splits.front().resolved, rollout_.resolved);
  rollout_ = RolloutFile::open(folder_.file("halves.h5")).splits.front();
  auto stepping = stepper(trajectories, 0.005);
  std::vector<double> y = at(0);
  for (std::size_t n = 0; n + 1 < times; ++n) {
    stepping.step(y);
    const std::size_t one[] = {1};
    EXPECT_THROW(stepping.save(), runtime::Error) << "within a closure step";
    EXPECT_THROW(stepping.save_columns(one), runtime::Error);
    EXPECT_THROW(stepping.reset_columns(one), runtime::Error);
    stepping.step(y);
    ASSERT_EQ(y, at(n + 1)) << "after closure step " << n;
  }
}

TEST_P(Coupled, BeginsAnewWhenItIsResetWithinAClosureStep) {
  auto stepping = stepper(trajectories, 0.005);
  std::vector<double> y = at(0);
  for (int n = 0; n < 3; ++n) stepping.step(y);  // one and a half closure steps
  stepping.reset();
  auto fresh = stepper(trajectories, 0.005);
  std::vector<double> expected = y = at(4);
  for (int n = 0; n < 5; ++n) {
    stepping.step(y);
    fresh.step(expected);
    ASSERT_EQ(y, expected) << "after half step " << n;
  }
}

TEST_P(Coupled, RestartsToTheLastBit) {
  for (const std::size_t stop : {0u, 1u, 2u, 17u}) {
    auto first = stepper();
    std::vector<double> y = at(0);
    for (std::size_t n = 0; n < stop; ++n) first.step(y);
    auto second = stepper();
    second.restore(first.save());
    for (std::size_t n = stop; n + 1 < times; ++n) second.step(y);
    EXPECT_EQ(y, at(times - 1)) << "restarted at step " << stop;
  }
}

TEST_P(Coupled, ColumnsComeAndGoAndGiveTheRolloutToTheLastBit) {
  // Column 1 starts anew after 7 steps, and column 3 goes on in a stepper of its own.
  auto stepping = stepper();
  std::vector<double> y = at(0);
  for (std::size_t n = 0; n < 7; ++n) stepping.step(y);
  const std::size_t anew[] = {1}, away[] = {3}, only[] = {0};
  const auto saved = stepping.save_columns(away);
  stepping.reset_columns(anew);
  std::copy_n(at(0).begin() + d, d, y.begin() + d);
  auto alone = stepper(1);
  alone.restore_columns(saved, only, only);
  std::vector<double> column(y.begin() + 3 * d, y.begin() + 4 * d);
  for (std::size_t n = 7; n < 20; ++n) stepping.step(y), alone.step(column);
  for (std::size_t v = 0; v < d; ++v) {
    EXPECT_EQ(y[v], at(20)[v]);
    EXPECT_EQ(y[d + v], at(13)[d + v]) << "as many steps after its start";
    EXPECT_EQ(column[v], at(20)[3 * d + v]);
  }
}

TEST_P(Coupled, GoesOnAfterARefusedInput) {
  auto stepping = stepper();
  std::vector<double> y = at(0);
  for (std::size_t n = 0; n + 1 < times; ++n) {
    if (n == 5) {
      const double kept = std::exchange(y[8], std::numeric_limits<double>::infinity());
      EXPECT_THROW(stepping.step(y), runtime::Error);
      y[8] = kept;
    }
    stepping.step(y);
  }
  EXPECT_EQ(y, at(times - 1));
}

INSTANTIATE_TEST_SUITE_P(
    Holds, Coupled,
    ::testing::Values(CoupledCase{{Hold::zero, Target::instant}, Dtype::f32},
                      CoupledCase{{Hold::linear, Target::instant}, Dtype::f32},
                      CoupledCase{{Hold::linear, Target::instant}, Dtype::f64},
                      CoupledCase{{Hold::linear, Target::mean}, Dtype::f32},
                      CoupledCase{{Hold::stage, Target::instant}, Dtype::f32},
                      CoupledCase{{Hold::stage, Target::instant}, Dtype::f64},
                      CoupledCase{{Hold::linear, Target::instant}, Dtype::f32, Frame::initial},
                      CoupledCase{{Hold::stage, Target::instant}, Dtype::f64, Frame::initial}),
    [](const auto& info) {
      return fmt::format("{}_{}_{}{}", to_string(info.param.held.hold), to_string(info.param.held.target),
                         to_string(info.param.dtype), info.param.frame == Frame::initial ? "_framed" : "");
    });

class CppApi : public ::testing::Test {
 protected:
  template <class Body>
  void expect_error(mac_status status, const std::string& piece, const Body& body) {
    try {
      body();
      ADD_FAILURE() << "expected an error with '" << piece << "'";
    } catch (const runtime::Error& error) {
      EXPECT_EQ(error.status(), status);
      EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what();
    }
  }
  ScratchFolder folder_;
  std::string path_ = write_closure(folder_, burgers_closure(LayerKind::mamba));
};

TEST_F(CppApi, CopiesOfAStateGoTheirOwnWays) {
  const runtime::Model model(path_);
  runtime::State one = model.state(2), other = one;
  std::vector<double> y(2 * d, 0.1), closure(2 * d);
  one.step(y, closure);
  EXPECT_EQ(other.steps(), 0u);
  other = one;
  EXPECT_EQ(other.save(), one.save());
}

TEST_F(CppApi, AStateBecomesAnotherByACopy) {
  const runtime::Model model(path_);
  runtime::State one = model.state(2), other = model.state(2);
  const std::vector<double> y = random_inputs(3, 2, d);
  std::vector<double> closure(2 * d), expected(2 * d);
  for (std::size_t t = 0; t < 2; ++t) one.step(std::span(y).subspan(t * 2 * d, 2 * d), closure);
  other.copy(one);
  EXPECT_EQ(other.save(), one.save());
  one.step(std::span(y).subspan(2 * 2 * d), expected);
  other.step(std::span(y).subspan(2 * 2 * d), closure);
  EXPECT_EQ(closure, expected);
}

TEST_F(CppApi, PassesTheTimeToARightHandSideThatAsksForIt) {
  std::vector<double> seen;
  runtime::CoupledStepper stepper(runtime::Model(path_), 0.01,
                                  [&](double t, std::span<const double>, std::span<double> dydt) {
                                    seen.push_back(t);
                                    std::ranges::fill(dydt, 0.0);
                                  });
  std::vector<double> y(d);
  stepper.step(y, 2);
  EXPECT_EQ(seen, (std::vector<double>{2, 2 + 0.5 * 0.01, 2 + 0.5 * 0.01, 2.01}));
}

TEST_F(CppApi, AddsEachComponentToTheEquationItIsNamedAfter) {
  Model named = burgers_closure(LayerKind::mamba);
  named.output_names = {"C_psi3", "C_psi2", "C_psi1", "C_phi3", "C_phi2", "C_phi1"};
  const runtime::Model model(write_closure(folder_, named, "named.safetensors"));
  EXPECT_EQ(model.closure_targets(), (std::vector<std::size_t>{5, 4, 3, 2, 1, 0}));
  runtime::CoupledStepper stepper(
      model, 0.01, [](std::span<const double>, std::span<double> dydt) { std::ranges::fill(dydt, 0.0); },
      {.hold = runtime::Hold::zero});
  std::vector<double> y(d);
  stepper.step(y);
  for (std::size_t i = 0; i < d; ++i)
    EXPECT_NEAR(y[i], 0.01 * stepper.closure()[d - 1 - i], 1e-16);  // rounding of sums of about 1e-3
}

TEST_F(CppApi, BelievesTheFileRatherThanTheNames) {
  Model named = burgers_closure(LayerKind::mamba);
  named.output_names = {"C_psi3", "C_psi2", "C_psi1", "C_phi3", "C_phi2", "C_phi1"};
  named.closure_targets = {1, 0, 2, 3, 5, 4};
  const runtime::Model model(write_closure(folder_, named, "stored.safetensors"));
  EXPECT_EQ(model.closure_targets(), named.closure_targets);
}

TEST_F(CppApi, AsksForTheEquationsThatNoNameTells) {
  Model fewer = burgers_closure(LayerKind::mamba);
  fewer.shape.d_out = 2;
  fewer.parameters = initial_parameters(fewer.shape, 1);
  fewer.normalisation = Normalisation::identity(fewer.shape);
  fewer.output_names.clear();
  const runtime::Model model(write_closure(folder_, fewer, "fewer.safetensors"));
  const auto still = [](std::span<const double>, std::span<double>) {};
  expect_error(MAC_INVALID_ARGUMENT, "2 closure components for 6 variables",
               [&] { runtime::CoupledStepper(model, 0.01, still); });
  runtime::CoupledStepper(model, 0.01, still, {.targets = {1, 4}});
}

TEST_F(CppApi, SaysWhatWasWrong) {
  expect_error(MAC_BAD_MODEL, "does not exist", [&] { runtime::Model(folder_.file("none")); });
  runtime::Model model(path_);
  expect_error(MAC_INVALID_ARGUMENT, "0 columns", [&] { model.state(0); });
  runtime::State state = model.state();
  std::vector<double> y(d), closure(d), longer(d + 1);
  expect_error(MAC_INVALID_ARGUMENT, "y has 7 elements: expected 6", [&] { state.step(longer, closure); });
  expect_error(MAC_INVALID_ARGUMENT, "closure has 7", [&] { state.step(y, longer); });
  y[1] = std::numeric_limits<double>::quiet_NaN();
  expect_error(MAC_NOT_FINITE, "column 0, component 1 (phi2)", [&] { state.step(y, closure); });
  expect_error(MAC_BAD_STATE, "3 columns", [&] { state.restore(model.state(3).save()); });
  const auto still = [](std::span<const double>, std::span<double>) {};
  expect_error(MAC_INVALID_ARGUMENT, "dt is", [&] { runtime::CoupledStepper(model, 0, still); });
  expect_error(MAC_INVALID_ARGUMENT, "trained for a closure step of 0.01",
               [&] { runtime::CoupledStepper(model, 0.015, still); });
  expect_error(MAC_INVALID_ARGUMENT, "target 6 is beyond", [&] {
    runtime::CoupledStepper(model, 0.01, still, {.targets = {0, 1, 2, 3, 4, 6}});
  });
  expect_error(MAC_INVALID_ARGUMENT, "a state of 3 columns cannot be copied to one of 1",
               [&] { state.copy(model.state(3)); });
  expect_error(MAC_INVALID_ARGUMENT, "in float64 cannot be copied to one of",
               [&] { state.copy(runtime::Model(path_, Precision::float64).state()); });
  expect_error(MAC_INVALID_ARGUMENT, "step means, which are not closures at a stage", [&] {
    const Model means = burgers_closure(LayerKind::mamba, {Hold::linear, Target::mean});
    runtime::CoupledStepper(runtime::Model(write_closure(folder_, means, "means.safetensors")), 0.01, still,
                            {.hold = Hold::stage});
  });
  const runtime::Model moved = std::move(model);
  expect_error(MAC_INVALID_ARGUMENT, "model is null", [&] { model.state(); });
}

TEST(CppDerivatives, AdjointsAlongATapeAreTheTransposeOfTangents) {
  const ScratchFolder folder;
  const runtime::Model model(write_closure(folder, burgers_closure(LayerKind::mamba)));
  constexpr std::size_t columns = 3, steps = 5;
  runtime::State state = model.state(columns);
  runtime::Tape tape(model, columns, steps);
  const std::vector<double> y = random_inputs(steps + 2, columns, model.inputs());
  const std::size_t n = columns * model.inputs();
  const auto part = [&](std::size_t t) { return std::span(y).subspan(t * n, n); };
  std::vector<double> out(n), dmemory(columns * state.memory_size(), 0.1), gmemory(dmemory.size(), 0.0);
  const std::vector<double> first = dmemory;
  for (std::size_t t = 0; t < steps; ++t) tape.step(state, part(t), out);
  EXPECT_EQ(tape.steps(), steps);
  double left = 0, right = 0;
  for (std::size_t t = 0; t < steps; ++t) {
    tape.tangent(t, part(steps), dmemory, out);
    for (std::size_t i = 0; i < n; ++i) left += out[i] * part(steps + 1)[i];
  }
  for (std::size_t t = steps; t-- > 0;) {
    tape.adjoint(t, part(steps + 1), gmemory, out);
    for (std::size_t i = 0; i < n; ++i) right += out[i] * part(steps)[i];
  }
  for (std::size_t i = 0; i < first.size(); ++i) right += first[i] * gmemory[i];
  EXPECT_NEAR(left, right, 1e-12 * (std::abs(left) + 1));

  std::vector<double> memory = state.memory(), jacobian(columns * model.inputs() * model.outputs());
  state.step_jacobian(part(0), jacobian);
  memory[0] += 1;
  state.set_memory(memory);
  EXPECT_NE(state.memory()[0], memory[0] - 1);
  EXPECT_THROW(state.set_memory(std::span(memory).first(1)), runtime::Error);
  EXPECT_THROW(tape.tangent(0, part(0), std::span(dmemory).first(1), out), runtime::Error);
}

TEST(CppDerivatives, TangentAndAdjointAreTheFirstTermOfTaylorsSeries) {
  const ScratchFolder folder;
  const runtime::Model model(write_closure(folder, burgers_closure(LayerKind::mamba)), Precision::float64);
  constexpr std::size_t columns = 3;
  const std::size_t n = columns * model.inputs();
  runtime::State state = model.state(columns);
  const std::vector<double> numbers = random_inputs(9, columns, model.inputs());
  const auto part = [&](std::size_t t) { return std::span(numbers).subspan(t * n, n); };
  std::vector<double> closure(n);
  for (std::size_t t = 0; t < 6; ++t)
    state.step(part(t), closure);  // away from rest, where much would be zero

  // The weighted sum of closure and next memory, `h` along the direction (dy, dmemory).
  const std::span<const double> y = part(6), dy = part(7), weights = part(8);
  const std::vector<double> memory = state.memory(), dmemory(memory.size(), 0.3), gnext(memory.size(), -0.7);
  const auto sum = [&](double h) {
    runtime::State moved = state;
    std::vector<double> at(y.begin(), y.end()), from = memory;
    for (std::size_t i = 0; i < n; ++i) at[i] += h * dy[i];
    for (std::size_t i = 0; i < from.size(); ++i) from[i] += h * dmemory[i];
    moved.set_memory(from);
    moved.step(at, closure);
    const std::vector<double> next = moved.memory();
    return std::inner_product(weights.begin(), weights.end(), closure.begin(), 0.0) +
           std::inner_product(gnext.begin(), gnext.end(), next.begin(), 0.0);
  };
  std::vector<double> dnext = dmemory, dclosure(n), gmemory = gnext, gy(n);
  state.step_tangent(y, dy, dnext, dclosure);
  state.step_adjoint(y, weights, gmemory, gy);
  const double forward = std::inner_product(weights.begin(), weights.end(), dclosure.begin(), 0.0) +
                         std::inner_product(gnext.begin(), gnext.end(), dnext.begin(), 0.0),
               back = std::inner_product(dy.begin(), dy.end(), gy.begin(), 0.0) +
                      std::inner_product(dmemory.begin(), dmemory.end(), gmemory.begin(), 0.0);
  EXPECT_NEAR(forward, back, 1e-12 * (std::abs(forward) + 1));
  // Errors h² and 1e-16/h: both near 1e-10.
  EXPECT_NEAR((sum(1e-5) - sum(-1e-5)) / 2e-5, forward, 1e-7 * std::abs(forward));
  // What is left after the first term falls with the square of h.
  const auto left = [&](double h) { return std::abs(sum(h) - sum(0) - h * forward); };
  EXPECT_NEAR(left(1e-3) / left(5e-4), 4, 0.1);
}

}  // namespace
}  // namespace mac::test
