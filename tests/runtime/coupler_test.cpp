// A host step that is not the closure step: when the network predicts, from what, and to which order.
#include <gtest/gtest.h>
#include <mac/mac.h>

#include <array>
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

/// The numbers of a batch where hosts keep them: (components, columns), and an array for each component with every
/// third place in use. U is the host's scalar.
template <class U>
struct HostArrays {
  explicit HostArrays(const Numbers& rows) {
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < d; ++i)
        turned[i * columns + j] = scattered[i][3 * j] = static_cast<U>(rows[j * d + i]);
    for (std::size_t i = 0; i < d; ++i) pointers[i] = scattered[i].data();
  }
  const U* const* in() const { return pointers.data(); }
  Numbers rows_of_turned() const {
    Numbers rows(size);
    for (std::size_t k = 0; k < size; ++k) rows[k] = turned[k % d * columns + k / d];
    return rows;
  }
  Numbers rows_of_scattered() const {
    Numbers rows(size);
    for (std::size_t k = 0; k < size; ++k) rows[k] = scattered[k % d][3 * (k / d)];
    return rows;
  }

  static constexpr std::ptrdiff_t of_component = columns, of_column = 1;  // strides of turned
  static constexpr std::size_t extents[3] = {1, columns, 1};
  static constexpr std::ptrdiff_t strides[3] = {0, 3, 0};
  std::vector<U> turned = std::vector<U>(size);
  std::array<std::vector<U>, d> scattered = [] {
    std::array<std::vector<U>, d> arrays;
    arrays.fill(std::vector<U>(3 * columns, U(-7)));
    return arrays;
  }();
  std::array<U*, d> pointers;
};

Numbers in_single_precision(Numbers numbers) {
  for (double& number : numbers) number = static_cast<double>(static_cast<float>(number));
  return numbers;
}

TEST_F(Coupler, TakesEveryLayoutWhereItLies) {
  using Double = HostArrays<double>;
  using Single = HostArrays<float>;
  for (const double host_step : {closure_step / 2, closure_step, 3 * closure_step}) {
    std::array<mac_coupler*, 5> of;  // rows; strided and fields in double, the same in float
    for (mac_coupler*& one : of) one = coupler(state(), host_step, MAC_HOLD_LINEAR);
    for (int n = 0; n < 5; ++n) {
      const Numbers y = in_single_precision(y_at(n * host_step)), outside(size, -7);
      const Double in(y);
      const Single single(y);
      ASSERT_EQ(mac_coupler_begin(of[0], y.data(), nullptr), MAC_OK);
      ASSERT_EQ(mac_coupler_begin_strided(of[1], in.turned.data(), Double::of_component, Double::of_column,
                                          nullptr),
                MAC_OK);
      ASSERT_EQ(mac_coupler_begin_fields(of[2], Double::extents, in.in(), Double::strides, nullptr), MAC_OK);
      ASSERT_EQ(mac_coupler_begin_strided_float(of[3], single.turned.data(), Single::of_component,
                                                Single::of_column, nullptr),
                MAC_OK);
      ASSERT_EQ(mac_coupler_begin_fields_float(of[4], Single::extents, single.in(), Single::strides, nullptr),
                MAC_OK);
      const Numbers expected = closure(of[0], 0.3);
      Double out(outside);
      Single out_single(outside);
      ASSERT_EQ(mac_coupler_closure_strided(of[1], 0.3, out.turned.data(), Double::of_component,
                                            Double::of_column, nullptr),
                MAC_OK);
      ASSERT_EQ(mac_coupler_closure_fields(of[2], 0.3, Double::extents, out.pointers.data(), Double::strides,
                                           nullptr),
                MAC_OK);
      ASSERT_EQ(mac_coupler_closure_strided_float(of[3], 0.3, out_single.turned.data(), Single::of_component,
                                                  Single::of_column, nullptr),
                MAC_OK);
      ASSERT_EQ(mac_coupler_closure_fields_float(of[4], 0.3, Single::extents, out_single.pointers.data(),
                                                 Single::strides, nullptr),
                MAC_OK);
      EXPECT_EQ(out.rows_of_turned(), expected);
      EXPECT_EQ(out.rows_of_scattered(), expected);
      EXPECT_EQ(out_single.rows_of_turned(), in_single_precision(expected));
      EXPECT_EQ(out_single.rows_of_scattered(), in_single_precision(expected));
      for (std::size_t k = 0; k < 3 * columns; ++k)
        if (k % 3 != 0) {
          EXPECT_EQ(out.scattered[0][k], -7) << "between the columns";
        }
    }
  }
}

TEST_F(Coupler, ClosureWithinAStepGoesWhereTheHostWantsIt) {
  mac_state* const one = state();
  Numbers expected(size);
  for (int n = 0; n < 3; ++n)
    ASSERT_EQ(mac_step(one, y_at(n * closure_step).data(), expected.data(), nullptr), MAC_OK);
  ASSERT_EQ(mac_closure_at(one, MAC_HOLD_LINEAR, 0.5, expected.data(), nullptr), MAC_OK);
  HostArrays<double> out(Numbers(size, -7));
  HostArrays<float> single(Numbers(size, -7));
  ASSERT_EQ(mac_closure_at_fields(one, MAC_HOLD_LINEAR, 0.5, out.extents, out.pointers.data(), out.strides,
                                  nullptr),
            MAC_OK);
  ASSERT_EQ(mac_closure_at_strided_float(one, MAC_HOLD_LINEAR, 0.5, single.turned.data(), single.of_component,
                                         single.of_column, nullptr),
            MAC_OK);
  ASSERT_EQ(mac_closure_at_fields_float(one, MAC_HOLD_LINEAR, 0.5, single.extents, single.pointers.data(),
                                        single.strides, nullptr),
            MAC_OK);
  EXPECT_EQ(out.rows_of_scattered(), expected);
  EXPECT_EQ(single.rows_of_turned(), in_single_precision(expected));
  EXPECT_EQ(single.rows_of_scattered(), in_single_precision(expected));
}

TEST_F(Coupler, RefusesLayoutsThatCannotBeMeant) {
  mac_coupler* const one = coupler(state(), closure_step, MAC_HOLD_ZERO);
  const HostArrays<double> in(y_at(0));
  Numbers c(size);
  mac_error error{};
  EXPECT_EQ(mac_coupler_begin_strided(one, in.turned.data(), 0, 1, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_coupler_begin_strided: a stride of y is 0: its elements would be one");
  const std::size_t other[3] = {1, 3, 1};
  EXPECT_EQ(mac_coupler_begin_fields(one, other, in.in(), in.strides, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "mac_coupler_begin_fields: a grid of 1 x 3 x 1 is not that of the state's 2 columns");
  EXPECT_EQ(mac_coupler_begin_fields(one, nullptr, in.in(), in.strides, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_coupler_begin_fields: the argument extents is null");
  EXPECT_EQ(mac_coupler_begin_fields(nullptr, other, in.in(), in.strides, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_coupler_begin_fields: the argument coupler is null");
  EXPECT_EQ(mac_coupler_closure_strided(one, 0, c.data(), 1, 0, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "mac_coupler_closure_strided: a stride of closure is 0: its elements would be one");
  Numbers y = y_at(0);
  y[7] = std::nan("");
  EXPECT_EQ(mac_coupler_begin(one, y.data(), &error), MAC_NOT_FINITE);
  EXPECT_STREQ(error.message, "the input is nan in column 1, component 1 (phi2)");
  EXPECT_EQ(mac_coupler_closure(one, 0, c.data(), &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "no host step has begun yet");
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
