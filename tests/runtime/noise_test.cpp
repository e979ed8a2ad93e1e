// Stochastic closures inside other programs: noise that belongs to a column wherever it lives.
#include <gtest/gtest.h>

#include <mac/runtime.hpp>
#include <numeric>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

constexpr std::size_t steps = 12, columns = 5;

class RuntimeNoise : public ::testing::Test {
 protected:
  RuntimeNoise() : model_(write_closure(folder_, stochastic_burgers_closure(LayerKind::gru))) {}

  /// Closures (steps, columns, 6) from step `first` on, of a state that is there.
  std::vector<double> run(runtime::State& state, std::size_t first = 0) const {
    const std::size_t width = state.columns() * 6;
    const std::vector<double> y = random_inputs(steps, state.columns(), 6);
    std::vector<double> closures((steps - first) * width);
    for (std::size_t t = first; t < steps; ++t)
      state.step(std::span(y).subspan(t * width, width),
                 std::span(closures).subspan((t - first) * width, width));
    return closures;
  }

  ScratchFolder folder_;
  runtime::Model model_;
};

TEST_F(RuntimeNoise, IsThatOfTheLibrary) {
  runtime::State state(model_, columns);
  state.seed(program_seed);
  EXPECT_EQ(run(state), engine_steps<float>(stochastic_burgers_closure(LayerKind::gru),
                                            random_inputs(steps, columns, 6), columns));
}

TEST_F(RuntimeNoise, GoesOnAfterARestartAtAnyStep) {
  runtime::State whole(model_, columns);
  whole.seed(17);
  const std::vector<double> expected = run(whole);
  for (const std::size_t stop : {1u, 5u, 11u}) {
    runtime::State first(model_, columns);
    first.seed(17);
    const std::vector<double> y = random_inputs(steps, columns, 6);
    std::vector<double> closure(columns * 6);
    for (std::size_t t = 0; t < stop; ++t)
      first.step(std::span(y).subspan(t * columns * 6, columns * 6), closure);
    runtime::State restarted(model_, columns);  // which never heard of the seed
    restarted.restore(first.save());
    const std::vector<double> rest = run(restarted, stop);
    EXPECT_TRUE(
        std::equal(rest.begin(), rest.end(), expected.end() - static_cast<std::ptrdiff_t>(rest.size())));
  }
}

TEST_F(RuntimeNoise, BelongsToTheStreamNotToThePlaceOfAColumn) {
  runtime::State whole(model_, columns);
  const std::vector<double> y = random_inputs(1, columns, 6);
  std::vector<double> all(columns * 6), some(2 * 6);
  runtime::State part(model_, 2);
  const std::uint64_t streams[] = {3, 1};
  part.seed(0, streams);
  for (std::size_t t = 0; t < steps; ++t) {
    whole.step(y, all);
    std::vector<double> own(y.begin() + 18, y.begin() + 24);
    own.insert(own.end(), y.begin() + 6, y.begin() + 12);
    part.step(own, some);
    EXPECT_TRUE(std::equal(some.begin(), some.begin() + 6, all.begin() + 18));
    EXPECT_TRUE(std::equal(some.begin() + 6, some.end(), all.begin() + 6));
  }
}

TEST_F(RuntimeNoise, TravelsWithAColumnThatIsCopied) {
  runtime::State here(model_, columns), there(model_, columns), clone(model_, columns);
  here.seed(4);
  run(here);
  there.copy(here);
  clone = runtime::State(here);
  const std::vector<double> expected = run(here);
  EXPECT_EQ(run(there), expected);
  EXPECT_EQ(run(clone), expected);
}

TEST_F(RuntimeNoise, CanBeTurnedOff) {
  runtime::State a(model_, columns), b(model_, columns), noisy(model_, columns);
  a.set_noise(false), b.set_noise(false);
  b.seed(8);
  const std::vector<double> quiet = run(a);
  EXPECT_EQ(run(b), quiet);
  EXPECT_NE(run(noisy), quiet);
}

TEST_F(RuntimeNoise, IsRefusedByADeterministicClosure) {
  const runtime::Model plain(write_closure(folder_, burgers_closure(LayerKind::gru), "plain.safetensors"));
  EXPECT_EQ(plain.noise(), 0u);
  runtime::State state(plain, 1);
  EXPECT_THROW(state.seed(1), runtime::Error);
  EXPECT_THROW(state.set_noise(false), runtime::Error);
}

TEST_F(RuntimeNoise, HasNoDerivatives) {
  runtime::State state(model_, 1);
  const std::vector<double> y(6);
  std::vector<double> jacobian(36);
  mac_error error;
  EXPECT_NE(mac_step_jacobian(state.get(), y.data(), jacobian.data(), &error), MAC_OK);
  EXPECT_NE(std::string(error.message).find("stochastic"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace mac::test
