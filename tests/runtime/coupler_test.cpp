// A host step that is not the closure step: when the network predicts, from what, and to which order.
#include <gtest/gtest.h>
#include <mac/mac.h>

#include <cmath>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

using Numbers = std::vector<double>;
constexpr std::size_t d = 6, columns = 2, size = columns * d;
constexpr double closure_step = 0.01;  // of burgers_closure

Numbers y_at(double t) {
  Numbers y(size);
  for (std::size_t i = 0; i < size; ++i) y[i] = 0.3 * std::sin(3 * t + static_cast<double>(i));
  return y;
}

class Coupler : public ::testing::Test {
 protected:
  Coupler() { EXPECT_EQ(mac_model_open(path_.c_str(), MAC_FLOAT64, &model_, nullptr), MAC_OK); }
  ~Coupler() override {
    for (mac_coupler* coupler : couplers_) mac_coupler_free(coupler);
    for (mac_state* state : states_) mac_state_free(state);
    mac_model_close(model_);
  }
  mac_state* state() {
    states_.push_back(nullptr);
    EXPECT_EQ(mac_state_create(model_, columns, &states_.back(), nullptr), MAC_OK);
    return states_.back();
  }
  mac_coupler* coupler(mac_state* of, double host_step, mac_hold hold) {
    couplers_.push_back(nullptr);
    mac_error error{};
    EXPECT_EQ(mac_coupler_create(of, host_step, 0, hold, &couplers_.back(), &error), MAC_OK) << error.message;
    return couplers_.back();
  }
  static Numbers closure(const mac_coupler* of, double fraction) {
    Numbers c(size);
    EXPECT_EQ(mac_coupler_closure(of, fraction, c.data(), nullptr), MAC_OK);
    return c;
  }
  static void begin(mac_coupler* of, double t) {
    EXPECT_EQ(mac_coupler_begin(of, y_at(t).data(), nullptr), MAC_OK);
  }
  std::string refusal(double host_step) {
    mac_coupler* none = nullptr;
    mac_error error{};
    EXPECT_EQ(mac_coupler_create(state(), host_step, 0, MAC_HOLD_ZERO, &none, &error), MAC_INVALID_ARGUMENT);
    return error.message;
  }

  ScratchFolder folder_;
  std::string path_ = write_closure(folder_, burgers_closure(LayerKind::mamba));
  mac_model* model_ = nullptr;
  std::vector<mac_state*> states_;
  std::vector<mac_coupler*> couplers_;
};

TEST_F(Coupler, OfStepsThatDividePredictsAtEveryNthAndHoldsInBetween) {
  mac_state *const plain = state(), *const coupled = state();
  mac_coupler* const four = coupler(coupled, closure_step / 4, MAC_HOLD_LINEAR);
  EXPECT_EQ(mac_coupler_host_steps(four), 4u);
  EXPECT_EQ(mac_coupler_closure_steps(four), 1u);
  Numbers expected(size);
  for (std::size_t n = 0; n < 12; ++n) {
    const double t = static_cast<double>(n) * closure_step / 4;
    begin(four, t);
    if (n % 4 == 0) {
      ASSERT_EQ(mac_step(plain, y_at(t).data(), expected.data(), nullptr), MAC_OK);
    }
    ASSERT_EQ(mac_closure_at(plain, MAC_HOLD_LINEAR, (static_cast<double>(n % 4) + 0.5) / 4, expected.data(),
                             nullptr),
              MAC_OK);
    EXPECT_EQ(closure(four, 0.5), expected);
  }
  EXPECT_EQ(mac_state_steps(coupled), 3u);
}

/// The network along y(t) itself, at the distance it was trained with, is what a coarse host's should give.
TEST_F(Coupler, OfCoarseHostsIsOfSecondOrder) {
  constexpr double end = 0.96;
  const auto error_of = [&](std::size_t n, mac_hold hold, double fraction) {
    mac_state *const plain = state(), *const coupled = state();
    const double h = static_cast<double>(n) * closure_step;
    mac_coupler* const coarse = coupler(coupled, h, hold);
    EXPECT_EQ(mac_coupler_closure_steps(coarse), n);
    for (double t = 0; t < end + h / 2; t += h) begin(coarse, t);
    Numbers exact(size);
    for (double t = 0; t < end + fraction * h + closure_step / 2; t += closure_step)
      EXPECT_EQ(mac_step(plain, y_at(t).data(), exact.data(), nullptr), MAC_OK);
    const Numbers c = closure(coarse, fraction);
    double most = 0;
    for (std::size_t i = 0; i < size; ++i) most = std::max(most, std::abs(c[i] - exact[i]));
    return most;
  };
  // Twice the step, four times the error: of the line that the network sees, and of the closure's.
  const double line = error_of(8, MAC_HOLD_ZERO, 0) / error_of(4, MAC_HOLD_ZERO, 0);
  EXPECT_NEAR(line, 4, 0.8);
  EXPECT_NEAR(error_of(8, MAC_HOLD_LINEAR, 0.5) / error_of(4, MAC_HOLD_LINEAR, 0.5), 4, 1.2);
  EXPECT_NEAR(error_of(8, MAC_HOLD_ZERO, 0.5) / error_of(4, MAC_HOLD_ZERO, 0.5), 2, 0.6);
}

TEST_F(Coupler, GoesOnFromWhatWasSaved) {
  for (const double host_step : {closure_step / 3, 3 * closure_step}) {
    mac_state *const one = state(), *const other = state();
    mac_coupler *const whole = coupler(one, host_step, MAC_HOLD_LINEAR), *const resumed =
                                                                             coupler(other, host_step,
                                                                                     MAC_HOLD_LINEAR);
    for (int n = 0; n < 5; ++n) begin(whole, n * host_step);
    Numbers numbers(mac_coupler_numbers(whole));
    ASSERT_EQ(mac_coupler_save(whole, numbers.data(), nullptr), MAC_OK);
    std::vector<char> bytes(mac_state_bytes(one));
    ASSERT_EQ(mac_state_save(one, bytes.data(), bytes.size(), nullptr), MAC_OK);
    ASSERT_EQ(mac_state_restore(other, bytes.data(), bytes.size(), nullptr), MAC_OK);
    ASSERT_EQ(mac_coupler_restore(resumed, numbers.data(), nullptr), MAC_OK);
    EXPECT_EQ(closure(resumed, 0.3), closure(whole, 0.3));
    for (int n = 5; n < 9; ++n) begin(whole, n * host_step), begin(resumed, n * host_step);
    EXPECT_EQ(closure(resumed, 0.7), closure(whole, 0.7));
    numbers[0] = 0.5;
    mac_error error{};
    EXPECT_EQ(mac_coupler_restore(resumed, numbers.data(), &error), MAC_BAD_STATE);
    EXPECT_STREQ(error.message, "the saved coupler has begun 0.5 host steps");
  }
}

TEST_F(Coupler, RefusesStepsThatDoNotFit) {
  EXPECT_EQ(refusal(0.007),
            "the host step 0.007 neither divides the closure step 0.01 nor is a multiple of it");
  EXPECT_EQ(refusal(-1), "the host step is -1: expected a positive number");
  mac_error error{};
  Numbers c(size);
  EXPECT_EQ(mac_coupler_closure(coupler(state(), closure_step, MAC_HOLD_ZERO), 0, c.data(), &error),
            MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "no host step has begun yet");
}

}  // namespace
}  // namespace mac::test
