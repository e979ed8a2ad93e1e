// What holds for every engine, whatever the sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "network/engine_table.hpp"

namespace mac {

void PrintTo(const NetworkShape& shape, std::ostream* out) {
  *out << to_string(shape.kind) << " of " << shape.d_model;
}

namespace test {
namespace {

NetworkShape mamba(std::size_t d_model) { return {LayerKind::mamba, 3, 2, d_model, 2, 4}; }
NetworkShape gru(std::size_t d_model) { return {LayerKind::gru, 3, 2, d_model, 2, 0}; }

/// One of every kind.
std::vector<NetworkShape> small_networks() {
  std::vector<NetworkShape> shapes;
  for (const LayerKind kind : layer_kinds) shapes.push_back(shape_of(kind, 5));
  return shapes;
}

/// And wider ones, whose channels fill more than a vector.
std::vector<NetworkShape> small_and_wide_networks() {
  std::vector<NetworkShape> shapes = small_networks();
  for (const LayerKind kind : {LayerKind::mamba, LayerKind::oscillator}) shapes.push_back(shape_of(kind, 17));
  return shapes;
}

/// Tests of a row of the table.
class OfEngine : public testing::Test {
 protected:
  virtual const EngineRow& row() const = 0;
  void SetUp() override {
    if (!row().unavailable.empty()) GTEST_SKIP() << row().unavailable;
  }

  // A random network amplifies rounding more than the trained ones of the golden files do, most of all with
  // one or two channels, where the LayerNorm divides by almost nothing.
  double output_tolerance() const { return 5 * row().output_tolerance; }
  double gradient_tolerance() const { return 5 * row().gradient_tolerance; }

  void expect_same(const Result& result, const Result& expected, const NetworkShape& shape) const {
    EXPECT_LT(relative_error(result.y, expected.y), output_tolerance());
    EXPECT_LT(relative_error(result.final_state, expected.final_state), output_tolerance());
    EXPECT_LT(relative_error(result.d_x, expected.d_x), gradient_tolerance());
    EXPECT_LT(relative_error(result.d_initial_state, expected.d_initial_state), gradient_tolerance());
    const auto worst = worst_tensor(shape, result.d_parameters, expected.d_parameters);
    EXPECT_LT(worst.error, gradient_tolerance()) << worst.tensor;
  }
};

class Sequences : public OfEngine, public testing::WithParamInterface<EngineRow> {
 protected:
  const EngineRow& row() const override { return GetParam(); }
};

TEST_P(Sequences, AgreeWithTheReferenceForOddSizes) {
  const EngineRow& reference = engine_table().front();
  for (const std::size_t d_model : {1, 5, 17, 63})
    for (const std::size_t time : {1, 2, 3, 64, 65})
      for (const std::size_t batch : {1, 7})
        for (const LayerKind kind : layer_kinds) {
          const NetworkShape shape = shape_of(kind, d_model);
          SCOPED_TRACE(fmt::format("{} d_model {} time {} batch {}", to_string(kind), d_model, time, batch));
          const Problem problem = random_problem(shape, {batch, time}, 11);
          expect_same(row().forward_backward(problem), reference.forward_backward(problem), shape);
        }
}

TEST_P(Sequences, AreEqualToStepsWithACarriedState) {
  for (const NetworkShape& shape : small_and_wide_networks()) {
    const Problem problem = random_problem(shape, {3, 20}, 12);
    const Result whole = row().forward(problem), steps = run_in_pieces(row(), problem, 1);
    EXPECT_LT(relative_error(steps.y, whole.y), output_tolerance());
    EXPECT_LT(relative_error(steps.final_state, whole.final_state), output_tolerance());
  }
}

TEST_P(Sequences, AreEqualToTheirPiecesInValueAndGradient) {
  for (const NetworkShape& shape : small_and_wide_networks())
    for (const std::size_t length : {1, 2, 7, 13}) {
      SCOPED_TRACE(fmt::format("{} d_model {} pieces of {}", to_string(shape.kind), shape.d_model, length));
      const Problem problem = random_problem(shape, {3, 20}, 13);
      expect_same(run_in_pieces(row(), problem, length, true), row().forward_backward(problem), shape);
    }
}

TEST_P(Sequences, WithoutAnInitialStateStartFromZeros) {
  for (const NetworkShape& shape : small_networks()) {
    Problem problem = random_problem(shape, {2, 9}, 14, false);
    const Result absent = row().forward_backward(problem);
    problem.initial_state.assign(2 * shape.state_size(), 0);
    problem.d_final_state.assign(2 * shape.state_size(), 0);
    const Result zeros = row().forward_backward(problem);
    EXPECT_EQ(absent.y, zeros.y);
    EXPECT_EQ(absent.d_parameters, zeros.d_parameters);
    EXPECT_EQ(absent.d_initial_state, zeros.d_initial_state);
  }
}

TEST_P(Sequences, AreCausal) {
  const SequenceDims dims{2, 30};
  const std::size_t change = 17;  // inputs from here on are others
  for (const NetworkShape& shape : small_networks()) {
    const Problem problem = random_problem(shape, dims, 15);
    Problem changed = problem;
    for (std::size_t b = 0; b < dims.batch; ++b)
      for (std::size_t i = change * shape.d_in; i < dims.time * shape.d_in; ++i)
        changed.x[b * dims.time * shape.d_in + i] += 1;
    const Result before = row().forward(problem), after = row().forward(changed);
    for (std::size_t b = 0; b < dims.batch; ++b)
      for (std::size_t t = 0; t < dims.time; ++t) {
        const std::size_t i = (b * dims.time + t) * shape.d_out;
        if (t < change)
          EXPECT_EQ(before.y[i], after.y[i]) << "time " << t;
        else
          EXPECT_NE(before.y[i], after.y[i]) << "time " << t;
      }
  }
}

TEST_P(Sequences, OfABatchDoNotInfluenceEachOther) {
  for (const NetworkShape& shape : small_networks()) {
    const Problem problem = random_problem(shape, {3, 10}, 16);
    Problem first = problem;
    first.dims.batch = 1;
    first.x.resize(first.x.size() / 3);
    first.initial_state.resize(shape.state_size());
    const Result alone = row().forward(first), together = row().forward(problem);
    const auto length = static_cast<std::ptrdiff_t>(alone.y.size());
    EXPECT_LT(relative_error({together.y.begin(), together.y.begin() + length}, alone.y), output_tolerance());
  }
}

/// More sequences than a GPU has room for at once: where its blocks take several, the last of a layer fewer.
class ManySequences : public OfEngine,
                      public testing::WithParamInterface<std::tuple<EngineRow, NetworkShape>> {
 protected:
  const EngineRow& row() const override { return std::get<0>(GetParam()); }
  const NetworkShape& shape() const { return std::get<1>(GetParam()); }
};

TEST_P(ManySequences, AgreeWithTheReference) {
  for (const std::size_t time : {1, 3, 18}) {
    SCOPED_TRACE(fmt::format("time {}", time));
    const std::size_t batch = shape().d_model > 60 ? 103 : 403;  // the large ones take long on a CPU
    const Problem problem = random_problem(shape(), {batch, time}, 17, time != 3);
    expect_same(row().forward_backward(problem), engine_table().front().forward_backward(problem), shape());
  }
}

/// Sequences that end one or two steps into a chunk: the last three inputs of the convolution lie in two.
class LongSequences : public ManySequences {};

TEST_P(LongSequences, AgreeWithTheReference) {
  for (const std::size_t time : {34, 49, 66}) {
    SCOPED_TRACE(fmt::format("time {}", time));
    const Problem problem = random_problem(shape(), {3, time}, 18);
    expect_same(row().forward_backward(problem), engine_table().front().forward_backward(problem), shape());
  }
}

/// So few and so long that a GPU cuts them in segments. Of 1249 steps the last segment has one, so
/// that the state's last inputs are of two; of 1306 it ends within a quad of steps.
class FewVeryLongSequences : public ManySequences {};

TEST_P(FewVeryLongSequences, AgreeWithTheReference) {
  for (const std::size_t time : {1249, 1306}) {
    SCOPED_TRACE(fmt::format("time {}", time));
    const std::size_t batch = shape().d_model > 60 ? 1 : 2;
    const Problem problem = random_problem(shape(), {batch, time}, 19, time == 1249);
    const Result expected = engine_table().front().forward_backward(problem),
                 unrecorded = row().forward(problem);
    expect_same(row().forward_backward(problem), expected, shape());
    EXPECT_LT(relative_error(unrecorded.y, expected.y), output_tolerance());
    EXPECT_LT(relative_error(unrecorded.final_state, expected.final_state), output_tolerance());
  }
}

/// Beyond the fused kernels: sizes that fill no tile, states for every form of the scan, recurrent matrices that take a
/// block, clusters of two and more, or more than that.
class WideNetworks : public ManySequences {};

TEST_P(WideNetworks, AgreeWithTheReference) {
  for (const std::size_t time : {1, 37}) {
    SCOPED_TRACE(fmt::format("time {}", time));
    const Problem problem = random_problem(shape(), {7, time}, 20);
    expect_same(row().forward_backward(problem), engine_table().front().forward_backward(problem), shape());
  }
}

/// More sequences than a GPU has clusters for: each takes several.
class WideRecurrences : public ManySequences {};

TEST_P(WideRecurrences, AgreeWithTheReference) {
  for (const std::size_t batch : {40, 110, 250}) {
    SCOPED_TRACE(fmt::format("batch {}", batch));
    const Problem problem = random_problem(shape(), {batch, 3}, 21);
    expect_same(row().forward_backward(problem), engine_table().front().forward_backward(problem), shape());
  }
}

/// The sizes of the systems' networks, for which there are kernels of their own, and two others.
const NetworkShape many_shapes[] = {{LayerKind::mamba, 3, 2, 22, 4, 12},
                                    {LayerKind::mamba, 3, 2, 24, 2, 12},
                                    {LayerKind::mamba, 3, 2, 10, 3, 16},
                                    {LayerKind::mamba, 3, 2, 63, 3, 16},
                                    mamba(5),
                                    gru(28),
                                    gru(30),
                                    gru(16),
                                    {LayerKind::gru, 3, 2, 62, 3, 0},
                                    gru(5),
                                    {LayerKind::oscillator, 3, 2, 22, 4, 6}};

const NetworkShape very_long_shapes[] = {{LayerKind::mamba, 3, 2, 22, 2, 12},
                                         {LayerKind::mamba, 3, 2, 24, 2, 12},
                                         {LayerKind::mamba, 3, 2, 10, 2, 16},
                                         {LayerKind::mamba, 3, 2, 63, 2, 16},
                                         {LayerKind::oscillator, 3, 2, 22, 2, 6},
                                         {LayerKind::oscillator, 3, 2, 10, 2, 9},
                                         mamba(5),
                                         mamba(1)};

NetworkShape wide(LayerKind kind, std::size_t d_model, std::size_t d_state = 0) {
  return {kind, 3, 2, d_model, 2, d_state};
}
const NetworkShape wide_shapes[] = {wide(LayerKind::mamba, 33, 20),      wide(LayerKind::mamba, 80, 16),
                                    wide(LayerKind::mamba, 12, 7),       wide(LayerKind::mamba, 13, 45),
                                    wide(LayerKind::mamba, 9, 100),      wide(LayerKind::mamba, 6, 200),
                                    wide(LayerKind::mamba, 130, 3),      wide(LayerKind::gru, 65),
                                    wide(LayerKind::gru, 128),           wide(LayerKind::gru, 130),
                                    wide(LayerKind::gru, 200),           wide(LayerKind::gru, 300),
                                    wide(LayerKind::lstm, 96),           wide(LayerKind::lstm, 130),
                                    wide(LayerKind::lstm, 304),          wide(LayerKind::gru, 340),
                                    wide(LayerKind::lstm, 310),          wide(LayerKind::mlp, 100),
                                    wide(LayerKind::oscillator, 33, 10), wide(LayerKind::oscillator, 80, 8),
                                    wide(LayerKind::oscillator, 12, 3),  wide(LayerKind::oscillator, 13, 23),
                                    wide(LayerKind::oscillator, 9, 50),  wide(LayerKind::oscillator, 6, 100)};
const NetworkShape wide_recurrences[] = {{LayerKind::gru, 3, 2, 200, 1, 0},
                                         {LayerKind::lstm, 3, 2, 130, 1, 0}};

std::string name_of(const testing::TestParamInfo<ManySequences::ParamType>& info) {
  const auto& [row, shape] = info.param;
  return fmt::format("{}_{}{}", row.name, to_string(shape.kind), shape.d_model);
}

const auto engines_and_shapes =
    testing::Combine(testing::ValuesIn(engine_table().begin() + 2,  // after the references
                                       engine_table().end()),
                     testing::ValuesIn(many_shapes));
INSTANTIATE_TEST_SUITE_P(Engines, ManySequences, engines_and_shapes, name_of);
INSTANTIATE_TEST_SUITE_P(Engines, LongSequences, engines_and_shapes, name_of);
INSTANTIATE_TEST_SUITE_P(Engines, FewVeryLongSequences,
                         testing::Combine(testing::ValuesIn(engine_table().begin() + 3,  // in float
                                                            engine_table().end()),
                                          testing::ValuesIn(very_long_shapes)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Engines, WideNetworks,
                         testing::Combine(testing::ValuesIn(engine_table().begin() + 3,  // in float
                                                            engine_table().end()),
                                          testing::ValuesIn(wide_shapes)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Engines, WideRecurrences,
                         testing::Combine(testing::ValuesIn(engine_table().begin() + 3,  // in float
                                                            engine_table().end()),
                                          testing::ValuesIn(wide_recurrences)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Engines, Sequences, testing::ValuesIn(engine_table()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace test
}  // namespace mac
