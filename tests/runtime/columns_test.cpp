// Columns that rest, fields on grids, and guards, through the C interface.
#include <gtest/gtest.h>
#include <mac/mac.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

using Numbers = std::vector<double>;
constexpr std::size_t d = 6, columns = 12;

class Columns : public ::testing::Test {
 protected:
  Columns() {
    model_.training_range = TrainingRange{Numbers(d, -1),   Numbers(d, 1), Numbers(d, -0.02),
                                          Numbers(d, 0.02), Numbers(d, 0), Numbers(d * d, 0)};
    for (std::size_t i = 0; i < d; ++i) model_.training_range->input_covariance[i * d + i] = 0.25;
    path_ = write_closure(folder_, model_);
    EXPECT_EQ(mac_model_open(path_.c_str(), MAC_FLOAT32, &opened_, nullptr), MAC_OK);
    state_ = make();
  }
  ~Columns() override {
    for (mac_state* state : made_) mac_state_free(state);
    mac_model_close(opened_);
  }
  mac_state* make() {
    mac_state* state = nullptr;
    EXPECT_EQ(mac_state_create(opened_, columns, &state, nullptr), MAC_OK);
    made_.push_back(state);
    return state;
  }
  Numbers y(std::size_t step) const {
    const Numbers all = random_inputs(10, columns, d);
    return {all.begin() + static_cast<std::ptrdiff_t>(step * columns * d),
            all.begin() + static_cast<std::ptrdiff_t>((step + 1) * columns * d)};
  }
  static Numbers step(mac_state* state, const Numbers& y, double before = -99) {
    Numbers closure(y.size(), before);
    mac_error error{};
    EXPECT_EQ(mac_step(state, y.data(), closure.data(), &error), MAC_OK) << error.message;
    return closure;
  }
  std::string refusal(const mac_limits& limits) {
    mac_error error{};
    EXPECT_EQ(mac_state_set_limits(state_, &limits, &error), MAC_INVALID_ARGUMENT);
    return error.message;
  }
  mac_diagnostics diagnostics(std::size_t column) const {
    mac_diagnostics of{};
    EXPECT_EQ(mac_state_diagnostics(state_, column, &of, nullptr), MAC_OK);
    return of;
  }

  ScratchFolder folder_;
  Model model_ = burgers_closure(LayerKind::mamba);
  std::string path_;
  mac_model* opened_ = nullptr;
  mac_state* state_ = nullptr;
  std::vector<mac_state*> made_;
};

// ---- Columns that rest ----

TEST_F(Columns, AtRestKeepEverythingAndTheOthersStepToTheLastBit) {
  mac_state* const alone = make();
  step(state_, y(0)), step(alone, y(0));
  const std::size_t active[] = {0, 3, 4, 5, 6, 11};
  ASSERT_EQ(mac_state_set_active(state_, active, 6, nullptr), MAC_OK);
  EXPECT_EQ(mac_state_active(state_), 6u);
  Numbers with_nan = y(1);  // what rests is not read
  with_nan[1 * d] = NAN;
  const Numbers some = step(state_, with_nan), all = step(alone, y(1));
  for (std::size_t j = 0; j < columns; ++j) {
    const bool is_active = std::ranges::count(active, j) > 0;
    EXPECT_EQ(mac_state_column_steps(state_, j), is_active ? 2u : 1u);
    for (std::size_t i = 0; i < d; ++i) EXPECT_EQ(some[j * d + i], is_active ? all[j * d + i] : -99);
  }
  // All go on: those that rested take their second step now.
  ASSERT_EQ(mac_state_set_mask(state_, nullptr, nullptr), MAC_OK);
  const Numbers next = step(state_, y(1)), next_alone = step(alone, y(1));
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < d; ++i)
      EXPECT_EQ(next[j * d + i], (std::ranges::count(active, j) > 0 ? next_alone : all)[j * d + i]);
  // The line through the last two predictions is each column's own.
  Numbers line(columns * d), expected(columns * d);
  ASSERT_EQ(mac_closure_at(state_, MAC_HOLD_LINEAR, 1, line.data(), nullptr), MAC_OK);
  ASSERT_EQ(mac_closure_at(alone, MAC_HOLD_LINEAR, 1, expected.data(), nullptr), MAC_OK);
  EXPECT_EQ(line[0], expected[0]);
  EXPECT_NE(line[1 * d], expected[1 * d]);
}

TEST_F(Columns, AMaskIsTheListOfItsColumns) {
  unsigned char mask[columns] = {0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0};
  mac_state* const listed = make();
  const std::size_t list[] = {1, 2, 6, 8, 10};
  ASSERT_EQ(mac_state_set_mask(state_, mask, nullptr), MAC_OK);
  ASSERT_EQ(mac_state_set_active(listed, list, 5, nullptr), MAC_OK);
  EXPECT_EQ(step(state_, y(0)), step(listed, y(0)));
  std::memset(mask, 0, sizeof mask);
  ASSERT_EQ(mac_state_set_mask(state_, mask, nullptr), MAC_OK);
  EXPECT_EQ(step(state_, y(0)), Numbers(columns * d, -99));
}

TEST_F(Columns, ListsThatCannotBeMeantAreRefused) {
  mac_error error{};
  const std::size_t twice[] = {3, 3}, beyond[] = {0, columns};
  EXPECT_EQ(mac_state_set_active(state_, twice, 2, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "column 3 comes after column 3: expected each once, in ascending order");
  EXPECT_EQ(mac_state_set_active(state_, beyond, 2, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "column 12 is beyond the 12 of the state");
  EXPECT_EQ(mac_state_active(state_), columns);
  const std::size_t some[] = {3};
  ASSERT_EQ(mac_state_set_active(state_, some, 1, &error), MAC_OK);
  Numbers dmemory(columns * mac_state_memory_size(state_)), out(columns * d);
  EXPECT_EQ(mac_step_tangent(state_, out.data(), out.data(), dmemory.data(), out.data(), &error),
            MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "derivatives are of steps of all columns: 1 of 12 are active");
}

// ---- Layouts ----

/// Variables in arrays of their own, on a grid of 2 x 3 x 2 with a halo of one cell.
template <class T>
struct Fields {
  static constexpr std::size_t extents[3] = {2, 3, 2};
  static constexpr std::ptrdiff_t strides[3] = {1, 4, 20};
  std::vector<std::vector<T>> arrays{d, std::vector<T>(80, T(-7))};
  std::vector<T*> first;
  std::vector<const T*> first_const;
  Fields() {
    for (auto& array : arrays) {
      first.push_back(array.data() + 25);
      first_const.push_back(first.back());
    }
  }
  T& at(std::size_t i, std::size_t j) { return first[i][j % 2 + 4 * (j / 2 % 3) + 20 * (j / 6)]; }
  std::ptrdiff_t untouched() const {
    std::ptrdiff_t count = 0;
    for (const auto& array : arrays) count += std::ranges::count(array, T(-7));
    return count;
  }
};

TEST_F(Columns, OnAGridWithHalosStepWhereTheyLie) {
  mac_state* const plain = make();
  Fields<double> in, out;
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < d; ++i) in.at(i, j) = y(0)[j * d + i];
  mac_error error{};
  ASSERT_EQ(mac_step_fields(state_, in.extents, in.first_const.data(), in.strides, out.first.data(),
                            out.strides, &error),
            MAC_OK)
      << error.message;
  const Numbers expected = step(plain, y(0));
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < d; ++i) EXPECT_EQ(out.at(i, j), expected[j * d + i]);
  EXPECT_EQ(out.untouched(), static_cast<std::ptrdiff_t>(d * (80 - columns))) << "halos are not written";

  Fields<float> single, single_out;
  Numbers rounded = y(1);
  for (std::size_t k = 0; k < rounded.size(); ++k) {
    single.at(k % d, k / d) = static_cast<float>(rounded[k]);
    rounded[k] = single.at(k % d, k / d);
  }
  ASSERT_EQ(mac_step_fields_float(state_, single.extents, single.first_const.data(), single.strides,
                                  single_out.first.data(), single_out.strides, &error),
            MAC_OK);
  const Numbers next = step(plain, rounded);
  for (std::size_t k = 0; k < next.size(); ++k)
    EXPECT_EQ(single_out.at(k % d, k / d), static_cast<float>(next[k]));
}

TEST_F(Columns, AGridOfAnotherSizeIsRefused) {
  Fields<double> in, out;
  mac_error error{};
  const std::size_t extents[3] = {2, 3, 3};
  EXPECT_EQ(mac_step_fields(state_, extents, in.first_const.data(), in.strides, out.first.data(), out.strides,
                            &error),
            MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_step_fields: a grid of 2 x 3 x 3 is not that of the state's 12 columns");
  const std::ptrdiff_t flat[3] = {1, 0, 20};
  EXPECT_EQ(
      mac_step_fields(state_, in.extents, in.first_const.data(), flat, out.first.data(), out.strides, &error),
      MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_step_fields: a stride of y is 0: its elements would be one");
}

// ---- Guards ----

TEST_F(Columns, LimitsThatOnlyCountChangeNothing) {
  mac_state* const plain = make();
  mac_limits limits{};
  limits.margin = 0.1;
  ASSERT_EQ(mac_state_set_limits(state_, &limits, nullptr), MAC_OK);
  Numbers far = y(0);
  far[2 * d + 1] = 3.2;  // 1 below the widened bound 1.2 by one width of 2
  EXPECT_EQ(step(state_, far), step(plain, far));
  EXPECT_EQ(diagnostics(2).steps, 1u);
  EXPECT_EQ(diagnostics(2).inputs_outside, 1u);
  EXPECT_NEAR(diagnostics(2).input_excess, 1, 1e-12);
  EXPECT_EQ(diagnostics(2).changed, 0u);
  EXPECT_EQ(diagnostics(3).inputs_outside, 0u);
  double squares = 0;
  for (std::size_t i = 0; i < d; ++i) squares += far[2 * d + i] * far[2 * d + i] / 0.25;
  EXPECT_NEAR(diagnostics(2).distance, std::sqrt(squares / d), 1e-12);
}

TEST_F(Columns, ClippedInputsAreThoseAtTheBound) {
  mac_state* const plain = make();
  mac_limits limits{};
  limits.inputs = MAC_LIMIT_CLIP;
  ASSERT_EQ(mac_state_set_limits(state_, &limits, nullptr), MAC_OK);
  Numbers far = y(0), at_bound = y(0);
  for (double& value : at_bound) value = std::clamp(value, -1.0, 1.0);
  far[0] = -5, at_bound[0] = -1;
  EXPECT_EQ(step(state_, far), step(plain, at_bound));
  EXPECT_EQ(diagnostics(0).changed, 1u);
  mac_error error{};
  Numbers dmemory(columns * mac_state_memory_size(state_)), out(columns * d);
  EXPECT_EQ(mac_step_tangent(state_, far.data(), far.data(), dmemory.data(), out.data(), &error),
            MAC_INVALID_ARGUMENT);
  far[0] = NAN;
  EXPECT_EQ(mac_step(state_, far.data(), far.data(), &error), MAC_NOT_FINITE);
}

TEST_F(Columns, AStepThatIsRefusedIsInNoRecord) {
  mac_limits limits{};
  limits.inputs = MAC_LIMIT_CLIP;
  ASSERT_EQ(mac_state_set_limits(state_, &limits, nullptr), MAC_OK);
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL}) {
    Numbers far = y(0), closure(columns * d);
    far[0] = -5;  // a column before the bad one, which would be clipped
    far[4 * d] = bad;
    EXPECT_EQ(mac_step(state_, far.data(), closure.data(), nullptr), MAC_NOT_FINITE);
  }
  for (const std::size_t j : {0u, 3u, 4u}) {
    EXPECT_EQ(diagnostics(j).steps, 0u) << j;
    EXPECT_EQ(diagnostics(j).inputs_outside + diagnostics(j).changed, 0u) << j;
  }
}

TEST_F(Columns, ClosuresAreClippedOrScaledBackIntoTheirRange) {
  mac_state *const plain = make(), *const scaled = make();
  const Numbers free = step(plain, y(0));
  const auto outside = [](const double* c) {
    return std::any_of(c, c + d, [](double value) { return std::abs(value) > 0.02; });
  };
  ASSERT_TRUE(outside(free.data()));
  mac_limits limits{};
  limits.closure = MAC_LIMIT_CLIP;
  ASSERT_EQ(mac_state_set_limits(state_, &limits, nullptr), MAC_OK);
  limits.closure = MAC_LIMIT_SCALE;
  ASSERT_EQ(mac_state_set_limits(scaled, &limits, nullptr), MAC_OK);
  const Numbers clipped = step(state_, y(0)), scaled_back = step(scaled, y(0));
  for (std::size_t k = 0; k < free.size(); ++k) EXPECT_EQ(clipped[k], std::clamp(free[k], -0.02, 0.02));
  for (std::size_t j = 0; j < columns; ++j) {
    const double* const c = free.data() + j * d;
    double largest = 0;
    for (std::size_t i = 0; i < d; ++i) largest = std::max(largest, std::abs(c[i]));
    for (std::size_t i = 0; i < d; ++i)
      EXPECT_NEAR(scaled_back[j * d + i], c[i] * std::min(1.0, 0.02 / largest), 1e-15);
    EXPECT_EQ(diagnostics(j).closure_outside, outside(c) ? 1u : 0u);
    EXPECT_NEAR(diagnostics(j).closure_excess, outside(c) ? (largest - 0.02) / 0.04 : 0, 1e-12);
  }
}

TEST_F(Columns, AStepWithBothLimitsCountsAsChangedOnce) {
  for (const int closure : {MAC_LIMIT_CLIP, MAC_LIMIT_SCALE}) {
    mac_limits limits{};
    limits.inputs = MAC_LIMIT_CLIP;
    limits.closure = closure;
    ASSERT_EQ(mac_state_set_limits(state_, &limits, nullptr), MAC_OK);
    Numbers far = y(0);
    far[0] = 50;
    step(state_, far);
    EXPECT_EQ(diagnostics(0).inputs_outside, 1u);
    EXPECT_EQ(diagnostics(0).closure_outside, 1u);
    EXPECT_EQ(diagnostics(0).changed, 1u);
  }
}

TEST_F(Columns, ClosuresFadeToTheFallbackAsInputsLeave) {
  mac_state* const plain = make();
  mac_limits limits{};
  limits.closure = MAC_LIMIT_FADE;
  limits.fade = 2;
  ASSERT_EQ(mac_state_set_limits(state_, &limits, nullptr), MAC_OK);
  ASSERT_EQ(mac_state_set_fallback(state_, Numbers(columns * d, 0.5).data(), nullptr), MAC_OK);
  Numbers far = y(0);
  for (double& value : far) value = std::clamp(value, -1.0, 1.0);
  far[0 * d] = 2;   // half a width outside: a quarter faded
  far[1 * d] = 20;  // beyond two widths: all of it
  const Numbers free = step(plain, far), faded = step(state_, far);
  EXPECT_NEAR(faded[0], 0.75 * free[0] + 0.25 * 0.5, 1e-15);
  EXPECT_EQ(faded[1 * d + 3], 0.5);
  EXPECT_EQ(faded[2 * d], free[2 * d]);
}

TEST_F(Columns, AFallbackReplacesABlowUp) {
  mac_limits limits{};
  limits.closure = MAC_LIMIT_FADE;
  limits.fade = 1;
  ASSERT_EQ(mac_state_set_limits(state_, &limits, nullptr), MAC_OK);
  Numbers memory(columns * mac_state_memory_size(state_));
  std::fill_n(memory.begin(), mac_state_memory_size(state_), 3e38);  // overflows in the next step
  ASSERT_EQ(mac_state_set_memory(state_, memory.data(), nullptr), MAC_OK);
  const Numbers closure = step(state_, y(0));
  EXPECT_EQ(closure[0], 0);
  EXPECT_EQ(diagnostics(0).replaced, 1u);
  EXPECT_EQ(diagnostics(1).replaced, 0u);
  step(state_, y(1));  // the column goes on from rest
  EXPECT_EQ(diagnostics(0).replaced, 1u);
}

TEST_F(Columns, LimitsThatCannotBeMeantAreRefused) {
  mac_limits limits{};
  limits.closure = 7;
  EXPECT_EQ(refusal(limits),
            "mac_state_set_limits: closure is 7: expected one of MAC_LIMIT_COUNT to MAC_LIMIT_FADE");
  limits = {};
  limits.margin = -1;
  EXPECT_EQ(refusal(limits), "mac_state_set_limits: margin is -1: expected 0 or more");
  limits = {};
  limits.closure = MAC_LIMIT_FADE;
  EXPECT_EQ(refusal(limits), "mac_state_set_limits: fade is 0: expected more than 0");
  limits = {};
  const Numbers bounds(d);
  limits.input_low = bounds.data();
  EXPECT_NE(refusal(limits).find("some are null"), std::string::npos);
  mac_diagnostics of;
  mac_error error{};
  EXPECT_EQ(mac_state_diagnostics(state_, 0, &of, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_state_diagnostics: the state has no limits");
}

TEST_F(Columns, AModelKnowsItsTrainingRangeOrSaysThatItDoesNot) {
  Numbers low(d), high(d);
  EXPECT_EQ(mac_model_has_training_range(opened_), 1);
  ASSERT_EQ(mac_model_training_range(opened_, low.data(), nullptr, nullptr, high.data(), nullptr), MAC_OK);
  EXPECT_EQ(low, Numbers(d, -1));
  EXPECT_EQ(high, Numbers(d, 0.02));
  model_.training_range.reset();
  const std::string path = write_closure(folder_, model_, "unknown.safetensors");
  mac_model* unknown = nullptr;
  mac_state* state = nullptr;
  mac_error error{};
  ASSERT_EQ(mac_model_open(path.c_str(), MAC_FLOAT32, &unknown, &error), MAC_OK);
  ASSERT_EQ(mac_state_create(unknown, 1, &state, &error), MAC_OK);
  EXPECT_EQ(mac_model_has_training_range(unknown), 0);
  const mac_limits limits{};
  EXPECT_EQ(mac_state_set_limits(state, &limits, &error), MAC_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("does not say the range of its training data"),
            std::string::npos);
  const Numbers bounds(d, 1);
  mac_limits own{};
  own.input_low = own.input_high = own.output_low = own.output_high = bounds.data();
  EXPECT_EQ(mac_state_set_limits(state, &own, &error), MAC_OK);
  mac_state_free(state);
  mac_model_close(unknown);
}

}  // namespace
}  // namespace mac::test
