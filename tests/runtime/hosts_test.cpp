// What hosts with grids, ranges and steps of their own need, in C++: each is the C interface's to the last bit, and
// what is wrong is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/coupler.hpp>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

using Numbers = std::vector<double>;
using runtime::Limit;
using runtime::Limits;
constexpr std::size_t d = 6, columns = 5, size = columns * d;
constexpr double closure_step = 0.01;  // of burgers_closure

class Hosts : public ::testing::Test {
 protected:
  Hosts() {
    Model model = burgers_closure(LayerKind::mamba);
    model.training_range =
        TrainingRange{Numbers(d, -1), Numbers(d, 1), Numbers(d, -0.02), Numbers(d, 0.02), {}, {}};
    model_.emplace(write_closure(folder_, model));
    state_.emplace(*model_, columns);
  }
  static Numbers step(runtime::State& state, const Numbers& y, double before = -99) {
    Numbers closure(size, before);
    state.step(y, closure);
    return closure;
  }
  static Numbers y_at(double t) {
    Numbers y(size);
    for (std::size_t i = 0; i < size; ++i) y[i] = 0.3 * std::sin(3 * t + static_cast<double>(i));
    return y;
  }
  template <class Function>
  static std::string refusal(Function&& function) {
    try {
      function();
    } catch (const runtime::Error& error) {
      return error.what();
    }
    return "";
  }

  ScratchFolder folder_;
  std::optional<runtime::Model> model_;
  std::optional<runtime::State> state_;
};

TEST_F(Hosts, LetColumnsRestByListAndByMask) {
  runtime::State all = *state_, masked = *state_;
  const Numbers y = y_at(0), everywhere = step(all, y);
  const std::size_t list[] = {1, 4};
  const unsigned char mask[columns] = {0, 1, 0, 0, 1};
  state_->set_active(list);
  masked.set_mask(mask);
  EXPECT_EQ(state_->active(), 2u);
  const Numbers some = step(*state_, y);
  EXPECT_EQ(some, step(masked, y));
  for (std::size_t k = 0; k < size; ++k) EXPECT_EQ(some[k], k / d == 1 || k / d == 4 ? everywhere[k] : -99);
  state_->set_all_active();
  EXPECT_EQ(state_->active(), columns);
  state_->set_active({});
  EXPECT_EQ(state_->active(), 0u);
  EXPECT_EQ(refusal([&] { state_->set_mask(std::span(mask).first(3)); }),
            "the mask has 3 elements: expected 5");
}

TEST_F(Hosts, GuardTheirClosures) {
  const auto range = model_->training_range();
  ASSERT_TRUE(range);
  EXPECT_EQ(range->input_low, Numbers(d, -1));
  EXPECT_EQ(range->output_high, Numbers(d, 0.02));
  runtime::State plain = *state_;
  Numbers y = y_at(0);
  y[2 * d] = 3;  // one width of 2 beyond
  state_->set_limits({.closure = Limit::clip});
  const Numbers free = step(plain, y), clipped = step(*state_, y);
  for (std::size_t k = 0; k < size; ++k) EXPECT_EQ(clipped[k], std::clamp(free[k], -0.02, 0.02));
  EXPECT_EQ(state_->diagnostics(2).inputs_outside, 1u);
  EXPECT_NEAR(state_->diagnostics(2).input_excess, 1, 1e-12);
  EXPECT_EQ(state_->diagnostics(1).inputs_outside, 0u);

  // Ranges of the host's own, and a fallback.
  runtime::State fading = model_->state(columns);
  fading.set_limits({.closure = Limit::fade,
                     .fade = 0.5,
                     .range = runtime::Range{Numbers(d, -1), Numbers(d, 1), Numbers(d, -9), Numbers(d, 9)}});
  fading.set_fallback(Numbers(size, 0.25));
  EXPECT_EQ(step(fading, y)[2 * d + 1], 0.25);

  state_->clear_limits();
  EXPECT_EQ(refusal([&] { state_->diagnostics(0); }), "mac_state_diagnostics: the state has no limits");
  EXPECT_EQ(refusal([&] { state_->set_limits({.range = runtime::Range{}}); }),
            "input_low has 0 elements: expected 6");
}

TEST_F(Hosts, StepFieldsWhereTheyLie) {
  runtime::State plain = *state_;
  const Numbers y = y_at(0), expected = step(plain, y);
  // Variables in arrays of their own, with a gap between columns.
  std::vector<Numbers> in(d, Numbers(2 * columns)), out(d, Numbers(2 * columns, -7));
  std::vector<const double*> from;
  std::vector<double*> to;
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = 0; j < columns; ++j) in[i][2 * j] = y[j * d + i];
    from.push_back(in[i].data());
    to.push_back(out[i].data());
  }
  state_->step_fields({columns, 1, 1}, from, {2, 0, 0}, to, {2, 0, 0});
  for (std::size_t k = 0; k < size; ++k) {
    EXPECT_EQ(out[k % d][2 * (k / d)], expected[k]);
    EXPECT_EQ(out[k % d][2 * (k / d) + 1], -7);
  }
  EXPECT_EQ(refusal([&] {
              state_->step_fields({columns, 1, 1}, std::span(from).first(2), {2, 0, 0}, to, {2, 0, 0});
            }),
            "the list of fields y has 2 elements: expected 6");
}

TEST_F(Hosts, CoupleFieldsAndSinglePrecisionWhereTheyLie) {
  const std::array<std::size_t, 3> extents{columns, 1, 1};
  const std::array<std::ptrdiff_t, 3> along{1, 0, 0};
  const runtime::Stride turned{columns, 1};
  runtime::Coupler rows(model_->state(columns), 2 * closure_step), strided(rows.state(), 2 * closure_step),
      fields(rows.state(), 2 * closure_step);
  std::vector<float> y(size), closure(size);
  Numbers expected(size), fine(size), from(size), out(size);
  std::vector<const float*> in;
  std::vector<const double*> in_double;
  std::vector<float*> to;
  std::vector<double*> to_double;
  for (std::size_t i = 0; i < d; ++i) {
    in.push_back(&y[i * columns]);
    in_double.push_back(&from[i * columns]);
    to.push_back(&closure[i * columns]);
    to_double.push_back(&out[i * columns]);
  }
  for (int n = 0; n < 4; ++n) {
    Numbers now = y_at(n * 2 * closure_step);
    for (std::size_t k = 0; k < size; ++k) {
      y[k % d * columns + k / d] = static_cast<float>(now[k]);
      from[k % d * columns + k / d] = now[k] = static_cast<double>(static_cast<float>(now[k]));
    }
    rows.begin(now);
    rows.closure(0.3, expected);
    strided.begin(y.data(), turned);
    strided.closure(0.3, closure.data(), turned);
    for (std::size_t k = 0; k < size; ++k)
      ASSERT_EQ(closure[k % d * columns + k / d], static_cast<float>(expected[k]));
    n % 2 == 0 ? fields.begin_fields(extents, in, along) : fields.begin_fields(extents, in_double, along);
    fields.closure_fields(0.3, extents, to_double, along);
    for (std::size_t k = 0; k < size; ++k) ASSERT_EQ(out[k % d * columns + k / d], expected[k]);
    rows.state().closure_at(runtime::Hold::linear, 0.3, fine);
    fields.state().closure_at_fields(runtime::Hold::linear, 0.3, extents, to, along);
    for (std::size_t k = 0; k < size; ++k)
      ASSERT_EQ(closure[k % d * columns + k / d], static_cast<float>(fine[k]));
  }
  EXPECT_EQ(refusal([&] { fields.begin_fields(extents, std::span(in).first(2), along); }),
            "the list of fields y has 2 elements: expected 6");
}

TEST_F(Hosts, CoupleTheirOwnStepAndGoOnFromWhatWasSaved) {
  for (const double host_step : {closure_step / 3, 3 * closure_step}) {
    runtime::Coupler whole(model_->state(columns), host_step, {.hold = runtime::Hold::linear}),
        resumed(model_->state(columns), host_step, {.hold = runtime::Hold::linear});
    const auto closure = [](const runtime::Coupler& of, double fraction) {
      Numbers c(size);
      of.closure(fraction, c);
      return c;
    };
    EXPECT_EQ(refusal([&] { closure(whole, 0); }), "no host step has begun yet");
    for (int n = 0; n < 5; ++n) whole.begin(y_at(n * host_step));
    EXPECT_EQ(whole.state().steps(), host_step < closure_step ? 2u : 13u);
    resumed.restore(whole.save());
    for (int n = 5; n < 9; ++n) {
      whole.begin(y_at(n * host_step));
      resumed.begin(y_at(n * host_step));
      EXPECT_EQ(closure(resumed, 0.3), closure(whole, 0.3));
    }
    // What does not belong here is refused and changes nothing.
    const std::vector<std::byte> saved = whole.save();
    EXPECT_NE(
        refusal([&] { resumed.restore(std::span(saved).first(saved.size() - 1)); }).find("bytes: expected"),
        std::string::npos);
    std::vector<std::byte> damaged = runtime::Coupler(model_->state(columns), host_step).save();
    const double half = 0.5;
    std::memcpy(damaged.data() + resumed.state().saved_size(), &half, sizeof half);
    EXPECT_EQ(refusal([&] { resumed.restore(damaged); }), "the saved coupler has begun 0.5 host steps");
    EXPECT_EQ(resumed.save(), saved);
    const runtime::Coupler moved = std::move(resumed);
    EXPECT_EQ(closure(moved, 0.7), closure(whole, 0.7));
  }
  EXPECT_NE(refusal([&] { runtime::Coupler(model_->state(), 0.007); }).find("neither divides"),
            std::string::npos);
  runtime::Coupler given(model_->state(), 0.5, {.closure_step = 0.25});
  EXPECT_EQ(given.closure_steps(), 2u);
  EXPECT_EQ(given.host_steps(), 1u);
}

}  // namespace
}  // namespace mac::test
