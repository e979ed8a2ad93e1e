// The C interface in one process: the library's own steps to the last bit, any layout, restart, and a
// sentence for every wrong use.
#include <gtest/gtest.h>
#include <mac/mac.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

constexpr std::size_t d = 6, columns = 5, steps = 12;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A model and a state, opened in the way of C.
struct Opened {
  mac_model* model = nullptr;
  mac_state* state = nullptr;
  explicit Opened(const std::string& path, mac_precision precision = MAC_FLOAT32,
                  std::size_t count = columns) {
    mac_error error{};
    EXPECT_EQ(mac_model_open(path.c_str(), precision, &model, &error), MAC_OK) << error.message;
    EXPECT_EQ(mac_state_create(model, count, &state, &error), MAC_OK) << error.message;
  }
  ~Opened() {
    mac_model_close(model);
    mac_state_free(state);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  std::vector<double> run(const std::vector<double>& y, std::size_t from = 0, std::size_t to = steps) const {
    std::vector<double> closure(y.size());
    for (std::size_t t = from; t < to; ++t)
      EXPECT_EQ(mac_step(state, y.data() + t * columns * d, closure.data() + t * columns * d, nullptr),
                MAC_OK);
    return closure;
  }
  std::vector<char> saved() const {
    std::vector<char> bytes(mac_state_bytes(state));
    EXPECT_EQ(mac_state_save(state, bytes.data(), bytes.size(), nullptr), MAC_OK);
    return bytes;
  }
};

class CApi : public ::testing::TestWithParam<LayerKind> {
 protected:
  ScratchFolder folder_;
  Model model_ = burgers_closure(GetParam());
  std::string path_ = write_closure(folder_, model_);
  std::vector<double> y_ = random_inputs(steps, columns, d);
};

TEST_P(CApi, StepsAreTheLibrarysToTheLastBit) {
  EXPECT_EQ(Opened(path_).run(y_), engine_steps<float>(model_, y_, columns));
  EXPECT_EQ(Opened(path_, MAC_FLOAT64).run(y_), engine_steps<double>(model_, y_, columns));
}

TEST_P(CApi, TakesAnyLayout) {
  const std::vector<double> expected = Opened(path_).run(y_);
  const Opened by_component(path_);  // (inputs, columns), every second element, closures backwards
  std::vector<double> y(2 * columns * d), closure(columns * d);
  for (std::size_t t = 0; t < steps; ++t) {
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < d; ++i) y[2 * (i * columns + j)] = y_[(t * columns + j) * d + i];
    const auto c = static_cast<std::ptrdiff_t>(columns), n = static_cast<std::ptrdiff_t>(d);
    ASSERT_EQ(mac_step_strided(by_component.state, y.data(), 2 * c, 2, closure.data() + columns * d - 1, -1,
                               -n, nullptr),
              MAC_OK);
    for (std::size_t k = 0; k < columns * d; ++k)
      ASSERT_EQ(closure[columns * d - 1 - k], expected[t * columns * d + k]);
  }
}

TEST_P(CApi, MayWriteTheClosureOverTheInput) {
  const std::vector<double> expected = Opened(path_).run(y_);
  const Opened in_place(path_);
  for (std::size_t t = 0; t < steps; ++t)
    ASSERT_EQ(mac_step(in_place.state, &y_[t * columns * d], &y_[t * columns * d], nullptr), MAC_OK);
  EXPECT_EQ(y_, expected);
}

TEST_P(CApi, SinglePrecisionRoundsOnlyAtTheBoundary) {
  const std::vector<float> y(y_.begin(), y_.end());
  const Opened single(path_);
  std::vector<float> closure(y.size());
  for (std::size_t t = 0; t < steps; ++t)
    ASSERT_EQ(mac_step_float(single.state, &y[t * columns * d], &closure[t * columns * d], nullptr), MAC_OK);
  const std::vector<double> expected = Opened(path_).run({y.begin(), y.end()});
  EXPECT_EQ(closure, std::vector<float>(expected.begin(), expected.end()));
}

TEST_P(CApi, RestartsAtEveryStepToTheLastBit) {
  const std::vector<double> whole = Opened(path_).run(y_);
  for (std::size_t stop = 0; stop < steps; ++stop) {
    const Opened first(path_), second(path_);
    first.run(y_, 0, stop);
    const std::vector<char> saved = first.saved();
    second.run(y_, 0, 3);  // the restored state replaces whatever was there
    ASSERT_EQ(mac_state_restore(second.state, saved.data(), saved.size(), nullptr), MAC_OK);
    EXPECT_EQ(mac_state_steps(second.state), stop);
    const std::vector<double> rest = second.run(y_, stop);
    EXPECT_TRUE(std::equal(rest.begin() + static_cast<std::ptrdiff_t>(stop * columns * d), rest.end(),
                           whole.begin() + static_cast<std::ptrdiff_t>(stop * columns * d)));
  }
}

TEST_P(CApi, ColumnsGoOnInAnotherDecomposition) {
  constexpr std::size_t many = 192, half = many / 2, taken = 3;
  const std::vector<double> y = random_inputs(steps, many, d);
  const Opened whole(path_, MAC_FLOAT32, many);
  std::vector<double> expected(many * d), closure(half * d);
  const auto at = [&](std::size_t t, std::size_t column) { return y.data() + (t * many + column) * d; };
  for (std::size_t t = 0; t < taken; ++t)
    ASSERT_EQ(mac_step(whole.state, at(t, 0), expected.data(), nullptr), MAC_OK);
  const std::vector<char> saved = whole.saved();
  EXPECT_EQ(mac_saved_columns(whole.state, saved.data(), saved.size()), many);
  ASSERT_EQ(mac_step(whole.state, at(taken, 0), expected.data(), nullptr), MAC_OK);
  for (const std::size_t first : {std::size_t{0}, half}) {
    const Opened part(path_, MAC_FLOAT32, half);
    std::vector<std::size_t> from(half);
    std::iota(from.begin(), from.end(), first);
    ASSERT_EQ(mac_state_restore_columns(part.state, saved.data(), saved.size(), from.data(), nullptr, half,
                                        nullptr),
              MAC_OK);
    EXPECT_EQ(mac_state_column_steps(part.state, half - 1), taken);
    ASSERT_EQ(mac_step(part.state, at(taken, first), closure.data(), nullptr), MAC_OK);
    EXPECT_TRUE(std::ranges::equal(closure, std::span(expected).subspan(first * d, half * d)));
    std::vector<double> line(half * d), whole_line(many * d);  // the predictions before came along
    ASSERT_EQ(mac_closure_at(part.state, MAC_HOLD_LINEAR, 0.5, line.data(), nullptr), MAC_OK);
    ASSERT_EQ(mac_closure_at(whole.state, MAC_HOLD_LINEAR, 0.5, whole_line.data(), nullptr), MAC_OK);
    EXPECT_TRUE(std::ranges::equal(line, std::span(whole_line).subspan(first * d, half * d)));
  }
}

TEST_P(CApi, ColumnsAreSavedCopiedAndResetAlone) {
  const Opened one(path_), other(path_);
  one.run(y_);
  const std::size_t last = columns - 1, first = 0;
  std::vector<char> saved(mac_state_columns_bytes(one.state, 1)), again(saved.size());
  const auto save = [&](const mac_state* state, std::size_t column, std::vector<char>& to) {
    EXPECT_EQ(mac_state_save_columns(state, &column, 1, to.data(), to.size(), nullptr), MAC_OK);
  };
  save(one.state, last, saved);
  ASSERT_EQ(mac_state_copy_columns(one.state, &last, other.state, &first, 1, nullptr), MAC_OK);
  save(other.state, first, again);
  EXPECT_EQ(again, saved);
  EXPECT_EQ(mac_state_column_steps(other.state, first), steps);
  EXPECT_EQ(mac_state_column_steps(other.state, last), 0u);
  EXPECT_EQ(mac_state_steps(other.state), steps);
  ASSERT_EQ(mac_state_reset_columns(other.state, &first, 1, nullptr), MAC_OK);
  EXPECT_EQ(other.saved(), Opened(path_).saved());
}

TEST_P(CApi, ClonesAndResetsStates) {
  const Opened original(path_);
  original.run(y_, 0, 4);
  Opened copy(path_);
  mac_state_free(copy.state);
  ASSERT_EQ(mac_state_clone(original.state, &copy.state, nullptr), MAC_OK);
  EXPECT_EQ(copy.saved(), original.saved());
  EXPECT_EQ(copy.run(y_, 4), original.run(y_, 4));
  ASSERT_EQ(mac_state_reset(copy.state, nullptr), MAC_OK);
  EXPECT_EQ(copy.saved(), Opened(path_).saved());
}

TEST_P(CApi, AModelReadFromMemoryIsTheSame) {
  const std::string bytes = read_bytes(path_);
  mac_model* model = nullptr;
  ASSERT_EQ(mac_model_open_memory(bytes.data(), bytes.size(), "buffer", MAC_FLOAT32, &model, nullptr),
            MAC_OK);
  EXPECT_EQ(mac_model_id(model), mac_model_id(Opened(path_).model));
  mac_model_close(model);
}

TEST_P(CApi, AStateOutlivesItsClosedModel) {
  Opened opened(path_);
  mac_model_close(std::exchange(opened.model, nullptr));
  EXPECT_EQ(opened.run(y_), engine_steps<float>(model_, y_, columns));
}

TEST_P(CApi, TellsWhatTheFileSays) {
  const Opened opened(path_);
  const mac_model* m = opened.model;
  EXPECT_EQ(mac_model_inputs(m), d);
  EXPECT_EQ(mac_model_outputs(m), d);
  EXPECT_EQ(mac_model_parameters(m), model_.parameters.size());
  EXPECT_EQ(mac_model_kind(m), to_string(GetParam()));
  EXPECT_STREQ(mac_model_system(m), "burgers");
  EXPECT_STREQ(mac_model_input_name(m, 2), "phi3");
  EXPECT_STREQ(mac_model_output_name(m, 5), "c_psi3");
  EXPECT_STREQ(mac_model_output_name(m, 6), "");
  EXPECT_EQ(mac_model_closure_target(m, 5), 5);  // no telling names: in order
  EXPECT_EQ(mac_model_closure_target(m, 6), -1);
  EXPECT_EQ(mac_model_closure_target(nullptr, 0), -1);
  EXPECT_EQ(mac_model_closure_step(m), 0.01);
  EXPECT_EQ(mac_model_hold(m), MAC_HOLD_LINEAR);
  EXPECT_EQ(mac_model_target(m), MAC_TARGET_INSTANT);
  EXPECT_STREQ(mac_model_metadata(m, "d_model"), "22");
  EXPECT_EQ(mac_model_metadata(m, "weather"), nullptr);
  std::vector<double> scale(d);
  EXPECT_EQ(mac_model_normalisation(m, nullptr, scale.data(), nullptr, nullptr, nullptr), MAC_OK);
  EXPECT_EQ(scale, model_.normalisation.input_scale);
}

TEST_P(CApi, TakesThePrecisionOfTheFileWhereAsked) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    model_.dtype = dtype;
    const Opened opened(write_closure(folder_, model_, "stored.safetensors"), MAC_PRECISION_OF_FILE);
    EXPECT_EQ(mac_model_precision(opened.model), dtype == Dtype::f64 ? MAC_FLOAT64 : MAC_FLOAT32);
  }
}

TEST_P(CApi, ExtrapolatesTheLastTwoClosures) {
  const Opened opened(path_);
  const std::vector<double> c = opened.run(y_, 0, 3);
  std::vector<double> now(columns * d), held(columns * d);
  ASSERT_EQ(mac_closure_at(opened.state, MAC_HOLD_LINEAR, 0.5, now.data(), nullptr), MAC_OK);
  ASSERT_EQ(mac_closure_at(opened.state, MAC_HOLD_ZERO, 0.5, held.data(), nullptr), MAC_OK);
  for (std::size_t k = 0; k < columns * d; ++k) {
    const double last = c[2 * columns * d + k], before = c[columns * d + k];
    EXPECT_EQ(now[k], last + 0.5 * (last - before));
    EXPECT_EQ(held[k], last);
  }
  const Opened restored(path_);  // a saved state remembers both
  const std::vector<char> saved = opened.saved();
  ASSERT_EQ(mac_state_restore(restored.state, saved.data(), saved.size(), nullptr), MAC_OK);
  ASSERT_EQ(mac_closure_at(restored.state, MAC_HOLD_LINEAR, 0.5, held.data(), nullptr), MAC_OK);
  EXPECT_EQ(held, now);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CApi, ::testing::ValuesIn(layer_kinds),
                         [](const auto& info) { return std::string(to_string(info.param)); });

/// Wrong use: a code, and a sentence that names what was wrong.
class CApiRefuses : public ::testing::Test {
 protected:
  void expect(mac_status status, mac_status code, const std::string& piece) {
    EXPECT_EQ(status, code);
    EXPECT_EQ(error_.code, code);
    EXPECT_NE(std::string(error_.message).find(piece), std::string::npos) << error_.message;
  }
  ScratchFolder folder_;
  std::string path_ = write_closure(folder_, burgers_closure(LayerKind::mamba));
  Opened opened_{path_};
  std::vector<double> y_ = std::vector<double>(columns * d, 0.1),
                      closure_ = std::vector<double>(columns * d, 7);
  mac_error error_{};
  mac_model* model_ = nullptr;
};

TEST_F(CApiRefuses, NullPointers) {
  expect(mac_model_open(nullptr, MAC_FLOAT32, &model_, &error_), MAC_INVALID_ARGUMENT, "path is null");
  expect(mac_model_open(path_.c_str(), MAC_FLOAT32, nullptr, &error_), MAC_INVALID_ARGUMENT, "model is null");
  expect(mac_state_create(nullptr, 1, &opened_.state, &error_), MAC_INVALID_ARGUMENT, "model is null");
  expect(mac_step(nullptr, y_.data(), closure_.data(), &error_), MAC_INVALID_ARGUMENT, "state is null");
  expect(mac_step(opened_.state, nullptr, closure_.data(), &error_), MAC_INVALID_ARGUMENT, "y is null");
  expect(mac_step(opened_.state, y_.data(), nullptr, &error_), MAC_INVALID_ARGUMENT, "closure is null");
  expect(mac_state_save(opened_.state, nullptr, 0, &error_), MAC_INVALID_ARGUMENT, "buffer is null");
  EXPECT_EQ(mac_model_inputs(nullptr), 0u);
  EXPECT_STREQ(mac_model_kind(nullptr), "");
  EXPECT_EQ(mac_step(nullptr, nullptr, nullptr, nullptr), MAC_INVALID_ARGUMENT);
  mac_model_close(nullptr);
  mac_state_free(nullptr);
}

TEST_F(CApiRefuses, ModelFilesThatAreMissingOrForeign) {
  expect(mac_model_open(folder_.file("none").c_str(), MAC_FLOAT32, &model_, &error_), MAC_BAD_MODEL,
         "none: does not exist");
  write_bytes(folder_.file("text"), "this is not a model, but a text");
  expect(mac_model_open(folder_.file("text").c_str(), MAC_FLOAT32, &model_, &error_), MAC_BAD_MODEL,
         "safetensors");
  const std::string fixture = std::string(MAC_TEST_DATA) + "/tiny_gru.safetensors";
  expect(mac_model_open(fixture.c_str(), MAC_FLOAT32, &model_, &error_), MAC_BAD_MODEL,
         "not a closure network");
  EXPECT_EQ(model_, nullptr);
}

TEST_F(CApiRefuses, NumbersThatAreNotFiniteAndLeavesTheStateAlone) {
  const std::vector<char> before = opened_.saved();
  y_[3 * d + 1] = nan;
  expect(mac_step(opened_.state, y_.data(), closure_.data(), &error_), MAC_NOT_FINITE,
         "the input is nan in column 3, component 1 (phi2)");
  y_[3 * d + 1] = 1e300;
  expect(mac_step(opened_.state, y_.data(), closure_.data(), &error_), MAC_NOT_FINITE, "too large");
  EXPECT_EQ(opened_.saved(), before);
  EXPECT_EQ(closure_, std::vector<double>(columns * d, 7));
}

TEST_F(CApiRefuses, ClosuresThatOverflow) {
  Model wild = burgers_closure(LayerKind::mamba);
  wild.normalisation.output_scale.assign(d, 1e300);
  const Opened opened(write_closure(folder_, wild, "wild.safetensors"));
  std::vector<float> y(columns * d, 0.1f), closure(columns * d);
  expect(mac_step_float(opened.state, y.data(), closure.data(), &error_), MAC_NOT_FINITE,
         "in column 0, component 0 (c_phi1)");
}

TEST_F(CApiRefuses, SizesThatCannotBeMeant) {
  mac_state* state = nullptr;
  expect(mac_state_create(opened_.model, 0, &state, &error_), MAC_INVALID_ARGUMENT, "0 columns");
  expect(mac_state_create(opened_.model, static_cast<std::size_t>(-1), &state, &error_), MAC_INVALID_ARGUMENT,
         "columns");
  std::vector<char> small(mac_state_bytes(opened_.state) - 1);
  expect(mac_state_save(opened_.state, small.data(), small.size(), &error_), MAC_INVALID_ARGUMENT,
         "the state needs");
  expect(mac_step_strided(opened_.state, y_.data(), 1, d, closure_.data(), 0, d, &error_),
         MAC_INVALID_ARGUMENT, "a stride of closure is 0");
  expect(mac_closure_at(opened_.state, MAC_HOLD_LINEAR, 0, closure_.data(), &error_), MAC_INVALID_ARGUMENT,
         "not taken a step");
  ASSERT_EQ(mac_step(opened_.state, y_.data(), closure_.data(), &error_), MAC_OK);
  expect(mac_closure_at(opened_.state, MAC_HOLD_LINEAR, NAN, closure_.data(), &error_), MAC_INVALID_ARGUMENT,
         "fraction is nan");
}

TEST_F(CApiRefuses, StatesOfAnotherModelBatchOrPrecisionAndDamagedOnes) {
  const std::vector<char> before = opened_.saved();
  const auto refuse = [&](std::vector<char> bytes, const std::string& piece) {
    expect(mac_state_restore(opened_.state, bytes.data(), bytes.size(), &error_), MAC_BAD_STATE, piece);
    EXPECT_EQ(opened_.saved(), before);
  };
  const Model other = burgers_closure(LayerKind::mamba, {}, 2);
  refuse(Opened(write_closure(folder_, other, "other.safetensors")).saved(), "belongs to another model");
  refuse(Opened(path_, MAC_FLOAT32, 4).saved(), "has 4 columns, this state has 5");
  refuse(Opened(path_, MAC_FLOAT64).saved(), "opened in float64");
  std::vector<char> damaged = before;
  damaged[damaged.size() / 2] ^= 1;
  refuse(damaged, "damaged");
  refuse(std::vector<char>(before.begin(), before.end() - 1), "truncated");
  refuse(std::vector<char>(10), "too few");
  refuse(std::vector<char>(before.size()), "does not hold a saved state");
}

TEST_F(CApiRefuses, StatesWithOneFlippedBitWhereverItIs) {
  const std::vector<char> before = opened_.saved();
  constexpr std::size_t head = 64;
  for (std::size_t byte = 0; byte < before.size(); ++byte)
    for (int bit = 0; bit < 8; ++bit) {
      if (byte >= head && bit != static_cast<int>(byte % 8)) continue;  // of the records one bit a byte
      std::vector<char> damaged = before;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      EXPECT_EQ(mac_state_restore(opened_.state, damaged.data(), damaged.size(), &error_), MAC_BAD_STATE)
          << "bit " << bit << " of byte " << byte;
    }
  EXPECT_EQ(opened_.saved(), before);
}

}  // namespace
}  // namespace mac::test
