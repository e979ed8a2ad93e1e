// Few long sequences, which the CPU engine cuts in segments where the state is linear in the one before: the plan,
// agreement with the reference, and what of the engine's promises holds for them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mac/paper_networks.hpp>

#include "network/count_allocations.hpp"
#include "network/cpu/engine.hpp"
#include "network/cpu/segment_plan.hpp"
#include "network/dispatch_targets.hpp"
#include "network/engine_table.hpp"

namespace mac::test {
namespace {

constexpr std::size_t kRecords = std::size_t{128} << 20;

template <class T>
struct Pass {
  std::vector<T> y, final_state, d_parameters, d_x, d_initial_state;
  bool operator==(const Pass&) const = default;
};

template <class T>
std::vector<T> cast(const std::vector<double>& values) {
  return std::vector<T>(values.begin(), values.end());
}
template <class T>
std::vector<double> widen(const std::vector<T>& values) {
  return std::vector<double>(values.begin(), values.end());
}
template <class T>
const T* or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

template <class T>
Pass<T> run(const Problem& problem, int threads = 1, cpu::EngineOptions options = {}) {
  const auto engine = cpu::make_engine<T>(problem.shape, threads, options);
  const auto tape = engine->make_tape(problem.dims);
  const auto w = cast<T>(problem.parameters), x = cast<T>(problem.x), d_y = cast<T>(problem.d_y),
             initial = cast<T>(problem.initial_state), d_final = cast<T>(problem.d_final_state);
  const std::size_t rows = problem.dims.batch * problem.dims.time,
                    states = problem.dims.batch * problem.shape.state_size();
  // Garbage where the engine must overwrite.
  Pass<T> r{std::vector<T>(rows * problem.shape.d_out, T(7)), std::vector<T>(states, T(7)),
            std::vector<T>(w.size()), std::vector<T>(x.size(), T(7)), std::vector<T>(states, T(7))};
  engine->forward(w.data(), problem.dims, x.data(), r.y.data(), or_null(initial), r.final_state.data(),
                  tape.get());
  engine->backward(w.data(), problem.dims, x.data(), or_null(initial), d_y.data(), *tape,
                   {r.d_parameters.data(), r.d_x.data(), r.d_initial_state.data(), or_null(d_final)});
  return r;
}

NetworkShape mamba(std::size_t d_model = 5) { return shape_of(LayerKind::mamba, d_model); }

TEST(SegmentPlan, CutsBatchesOfAtMostEightSequencesOfSixteenTimesThreeChunks) {
  EXPECT_TRUE(cpu::SegmentPlan({8, 864}, 1000, kRecords).cuts());
  EXPECT_FALSE(cpu::SegmentPlan({8, 863}, 1000, kRecords).cuts());
  EXPECT_FALSE(cpu::SegmentPlan({9, 864}, 1000, kRecords).cuts());
  EXPECT_FALSE(cpu::SegmentPlan({0, 864}, 1000, kRecords).cuts());
}

TEST(SegmentPlan, HasEveryTimePointOnceInSegmentsThatFillTheWidestVectors) {
  for (const std::size_t batch : {1, 2, 3, 5, 8})
    for (const std::size_t time : {864, 865, 1749, 3455, 3456, 10001, 400'003}) {
      SCOPED_TRACE(fmt::format("{} sequences of {}", batch, time));
      const cpu::SegmentPlan plan({batch, time}, 1000, kRecords);
      std::vector<int> times(batch * time);
      for (std::size_t i = 0; i < plan.stretches(); ++i) {
        const cpu::Stretch stretch = plan.at(i);
        EXPECT_TRUE(stretch.segments % 16 == 0 || i >= plan.spans);
        EXPECT_GT(stretch.length, 0);
        for (std::size_t segment = 0; segment < stretch.all_segments(); ++segment)
          for (std::size_t chunk = 0; chunk < stretch.chunks(); ++chunk)
            for (std::size_t t = 0; t < stretch.rows_of(chunk); ++t)
              ++times[stretch.place(segment, chunk) + t];
      }
      EXPECT_EQ(times, std::vector<int>(batch * time, 1));
      EXPECT_GE(plan.length, 54);
    }
}

struct Case {
  const char* what;
  NetworkShape shape;
  SequenceDims dims;
  bool with_states = true;
  std::size_t record_bytes = kRecords;
};

/// Each with something of its own: what is cut, what is left over, and where segments end in a chunk of 18.
std::vector<Case> cases() {
  return {
      {"16 segments of 54 and nothing left", mamba(), {8, 864}},
      {"segments of 109 = 6·18 + 1 and five time points left", mamba(), {2, 1749}},
      {"segments of 92 = 5·18 + 2, without states", mamba(), {3, 1472}, false},
      {"32 segments a sequence", mamba(), {1, 3470}},
      {"two stretches, whose records are made again", mamba(), {3, 1800}, true, 1000},
      {"sizes that do not fill tiles", {LayerKind::mamba, 2, 3, 17, 1, 3}, {1, 900}},
      {"Burgers' network", paper_network("burgers", LayerKind::mamba), {2, 1306}},
  };
}

TEST(Segments, AgreeWithTheReferenceInValueAndGradientOnEveryInstructionSet) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.what);
    const Problem problem = random_problem(c.shape, c.dims, 21, c.with_states);
    const Result expected = engine_table().front().forward_backward(problem);
    for_each_dispatch_target([&] {
      const auto doubles = run<double>(problem, 1, {c.record_bytes});
      const auto floats = run<float>(problem, 1, {c.record_bytes});
      // The engine table's tolerances, times five for untrained networks as in sequence_test.cpp.
      EXPECT_LT(relative_error(doubles.y, expected.y), 5e-12);
      EXPECT_LT(relative_error(doubles.final_state, expected.final_state), 5e-12);
      EXPECT_LT(relative_error(doubles.d_x, expected.d_x), 5e-10);
      EXPECT_LT(relative_error(doubles.d_initial_state, expected.d_initial_state), 5e-10);
      EXPECT_LT(worst_tensor(c.shape, doubles.d_parameters, expected.d_parameters).error, 5e-10);
      EXPECT_LT(relative_error(widen(floats.y), expected.y), 1e-5);
      EXPECT_LT(relative_error(widen(floats.final_state), expected.final_state), 1e-5);
      EXPECT_LT(relative_error(widen(floats.d_x), expected.d_x), 5e-5);
      EXPECT_LT(relative_error(widen(floats.d_initial_state), expected.d_initial_state), 5e-5);
      EXPECT_LT(worst_tensor(c.shape, widen(floats.d_parameters), expected.d_parameters).error, 5e-5);
    });
  }
}

TEST(Segments, GiveTheSameBytesForEveryThreadCount) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.what);
    const Problem problem = random_problem(c.shape, c.dims, 22, c.with_states);
    const auto floats = run<float>(problem, 1, {c.record_bytes});
    const auto doubles = run<double>(problem, 1, {c.record_bytes});
    for (const int threads : {2, 7}) {
      EXPECT_TRUE(run<float>(problem, threads, {c.record_bytes}) == floats) << threads;
      EXPECT_TRUE(run<double>(problem, threads, {c.record_bytes}) == doubles) << threads;
    }
  }
}

/// The cut does not know the lanes of an instruction set; weights' gradients are summed over them.
TEST(Segments, GiveTheSameBytesOnAvx2AsOnAvx512ExceptForGradientsOfWeights) {
  const Problem problem = random_problem(mamba(17), {3, 1750}, 23);
  std::vector<Pass<float>> runs;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    if (target != HWY_AVX2 && target != HWY_AVX3) continue;
    hwy::SetSupportedTargetsForTest(target);
    runs.push_back(run<float>(problem));
    hwy::SetSupportedTargetsForTest(0);
  }
  if (runs.size() < 2) GTEST_SKIP() << "this machine has not both of them";
  runs[0].d_parameters = runs[1].d_parameters;
  EXPECT_TRUE(runs[0] == runs[1]);
}

TEST(Segments, AreNotMadeWithoutATapeSoThatPredictionsHaveTheBytesOfSteps) {
  const SequenceDims dims{2, 900};
  const Problem problem = random_problem(mamba(), dims, 24);
  const auto w = cast<float>(problem.parameters), x = cast<float>(problem.x);
  std::vector<float> y(dims.batch * dims.time * 2), state = cast<float>(problem.initial_state),
                                                    final_state(state.size());
  cpu::make_engine<float>(problem.shape, 1, {})
      ->forward(w.data(), dims, x.data(), y.data(), state.data(), final_state.data(), nullptr);
  const StepEngine<float> steps(problem.shape, w);
  for (std::size_t t = 0; t < dims.time; ++t) {
    std::vector<float> in, out(dims.batch * 2);
    for (std::size_t b = 0; b < dims.batch; ++b)
      for (std::size_t c = 0; c < 3; ++c) in.push_back(x[(b * dims.time + t) * 3 + c]);
    steps.step(dims.batch, in.data(), out.data(), state.data());
    for (std::size_t b = 0; b < dims.batch; ++b)
      for (std::size_t c = 0; c < 2; ++c) ASSERT_EQ(out[b * 2 + c], y[(b * dims.time + t) * 2 + c]) << t;
  }
  EXPECT_EQ(state, final_state);
}

/// Whatever a segment's lane has beside it.
TEST(Segments, AreCausalToTheBit) {
  const SequenceDims dims{2, 1749};
  const Problem problem = random_problem(mamba(), dims, 25);
  const auto before = run<float>(problem);
  for (const std::size_t change : {108, 109, 1000, 1744}) {  // the ends of segments, and what is left
    Problem changed = problem;
    for (std::size_t t = change; t < dims.time; ++t) changed.x[t * 3] += 1;  // of the first sequence
    const auto after = run<float>(changed);
    const auto at = [](const Pass<float>& of, std::size_t first, std::size_t end) {
      return std::vector<float>(of.y.begin() + static_cast<std::ptrdiff_t>(2 * first),
                                of.y.begin() + static_cast<std::ptrdiff_t>(2 * end));
    };
    EXPECT_EQ(at(before, 0, change), at(after, 0, change)) << change;
    EXPECT_NE(at(before, change, change + 1), at(after, change, change + 1)) << change;
    EXPECT_EQ(at(before, dims.time, 2 * dims.time), at(after, dims.time, 2 * dims.time)) << change;
  }
}

TEST(Segments, CarryNanToEveryLaterTime) {
  const SequenceDims dims{1, 900};
  Problem problem = random_problem(mamba(), dims, 26);
  problem.x[500 * 3] = NAN;
  const auto r = run<float>(problem);
  EXPECT_FALSE(std::isnan(r.y[500 * 2 - 1]));
  for (std::size_t i = 500 * 2; i < r.y.size(); ++i) ASSERT_TRUE(std::isnan(r.y[i])) << i / 2;
}

TEST(Segments, ShareATapeWithBatchesThatAreNotCut) {
  const NetworkShape shape = mamba();
  const auto engine = cpu::make_engine<float>(shape, 1, {});
  const auto tape = engine->make_tape({10, 1000});
  for (const SequenceDims dims :
       {SequenceDims{10, 1000}, {2, 1000}, {8, 870}, {2, 20}, {10, 1000}, {2, 1000}}) {
    const Problem problem = random_problem(shape, dims, 27);
    const auto expected = run<float>(problem);
    const auto w = cast<float>(problem.parameters), x = cast<float>(problem.x),
               d_y = cast<float>(problem.d_y), initial = cast<float>(problem.initial_state),
               d_final = cast<float>(problem.d_final_state);
    Pass<float> r = expected;
    std::fill(r.d_parameters.begin(), r.d_parameters.end(), 0.f);
    engine->forward(w.data(), dims, x.data(), r.y.data(), initial.data(), r.final_state.data(), tape.get());
    engine->backward(w.data(), dims, x.data(), initial.data(), d_y.data(), *tape,
                     {r.d_parameters.data(), r.d_x.data(), r.d_initial_state.data(), d_final.data()});
    EXPECT_TRUE(r == expected) << dims.batch << " of " << dims.time;
  }
}

TEST(Segments, DoNotAllocateAfterSetUp) {
  const NetworkShape shape = mamba();
  const SequenceDims dims{4, 1000};
  const auto engine = make_cpu_engine<float>(shape, 1);
  const auto tape = engine->make_tape(dims);
  const auto w = cast<float>(initial_parameters(shape, 1));
  std::vector<float> x(4 * 1000 * 3, 0.5f), y(4 * 1000 * 2), gradient(w.size());
  const long before = allocation_count();
  engine->forward(w.data(), dims, x.data(), y.data(), nullptr, nullptr, tape.get());
  engine->backward(w.data(), dims, x.data(), nullptr, y.data(), *tape,
                   {gradient.data(), nullptr, nullptr, nullptr});
  EXPECT_EQ(allocation_count(), before);
}

}  // namespace
}  // namespace mac::test
