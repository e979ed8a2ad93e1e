#include "training/batches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "coupling/fourier_frame.hpp"
#include "training/normalise.hpp"
#include "training/small_training.hpp"
#include "training/systems.hpp"

namespace mac::test {
namespace {

class Batches : public testing::Test {
 protected:
  Batches() : file(DataFile::open(small_data())), split(file.split("train")) {
    stage.batch = 5;
    stage.steps = 100;
    stage.augmentation = true;
  }
  TrainingData data(double budget = 1e9, Target target = Target::instant) const {
    return {split, target, split.times(), budget};
  }
  const System& system() const { return *file.experiment().system; }

  DataFile file;
  DataSplit split;
  StagePlan stage;
};

TEST_F(Batches, AreAFunctionOfSeedAndStep) {
  const TrainingData source = data();
  BatchStream straight(source, system(), stage, 3, 0, 1), jumping(source, system(), stage, 3, 0, 2),
      other(source, system(), stage, 4, 0, 1);
  for (std::size_t step = 0; step < 20; ++step) straight.at(step);
  const Batch& a = straight.at(20);
  const Batch& b = jumping.at(20);
  EXPECT_EQ(a.resolved, b.resolved);
  EXPECT_EQ(a.closure, b.closure);
  EXPECT_EQ(a.noise, b.noise);
  EXPECT_FALSE(a.noise.empty());
  EXPECT_NE(a.resolved, other.at(20).resolved);
  const std::vector<double> before = a.resolved;
  EXPECT_NE(before, straight.at(21).resolved);
}

// Which of its images a sample is drawn as does not matter, but for the reflection.
TEST_F(Batches, InFramesComeWithoutTheirPlace) {
  const TrainingData source = data();
  stage.window = 6;
  BatchStream augmented(source, system(), stage, 3, 0, 1, 1, nullptr, 3);
  StagePlan alone = stage;
  alone.augmentation = false;
  BatchStream framed(source, system(), alone, 3, 0, 2, 1, nullptr, 3),
      plain(source, system(), alone, 3, 0, 1);
  std::size_t reflected = 0;
  for (std::size_t step = 0; step < 5; ++step) {
    const Batch &a = augmented.at(step), &b = framed.at(step);
    Batch mirror = plain.at(step);
    EXPECT_NE(b.resolved, mirror.resolved);
    for (std::vector<double>* rows : {&mirror.resolved, &mirror.closure})
      for (std::size_t k = 0; k < rows->size(); ++k)
        if (k % 6 < 3) (*rows)[k] *= -1;
    for (std::size_t i = 0; i < stage.batch; ++i) {
      enter_frame_of_sample(3, i, mirror);
      EXPECT_GT(b.resolved[i * 36], 0) << "mode 1 of a first state is real and positive";
      EXPECT_NEAR(b.resolved[i * 36 + 3], 0, 1e-15);
      const auto far = [&](const Batch& other) {
        double most = 0;
        for (std::size_t k = i * 36; k < (i + 1) * 36; ++k)
          most = std::max(
              {most, std::abs(a.resolved[k] - other.resolved[k]), std::abs(a.closure[k] - other.closure[k])});
        return most;
      };
      EXPECT_LT(std::min(far(b), far(mirror)), 1e-13);  // rounding of two turns of numbers of order one
      reflected += far(mirror) < far(b);
    }
  }
  EXPECT_GT(reflected, 2u);
  EXPECT_LT(reflected, 23u);
}

TEST_F(Batches, GoOnFromStageToStage) {
  stage.noise_from = 0, stage.noise_to = 1;
  const TrainingData source = data();
  BatchStream first(source, system(), stage, 3, 0, 1), second(source, system(), stage, 3, 7, 1);
  EXPECT_EQ(second.at(0).resolved, first.at(7).resolved);
  EXPECT_EQ(second.at(0).noise, first.at(7).noise);
}

TEST_F(Batches, AreTheSameFromMemoryAndFromTheFile) {
  const TrainingData memory = data(), streamed = data(0);
  ASSERT_TRUE(memory.in_memory());
  ASSERT_FALSE(streamed.in_memory());
  stage.window = 7;
  BatchStream a(memory, system(), stage, 3, 0, 1), b(streamed, system(), stage, 3, 0, 1);
  for (const std::size_t step : {0u, 1u, 2u, 40u, 41u, 5u}) {
    EXPECT_EQ(a.at(step).resolved, b.at(step).resolved) << step;
    EXPECT_EQ(a.at(step).closure, b.at(step).closure) << step;
  }
}

TEST_F(Batches, HoldDifferentWindowsAndReachAllOfThem) {
  stage.augmentation = false;
  stage.window = 20;
  stage.batch = 12;
  const TrainingData source = data();
  const std::size_t starts = split.times() - 20 + 1;
  EXPECT_EQ(source.windows({20, 20}), 12 * starts);
  BatchStream batches(source, system(), stage, 1, 0, 1);
  std::set<double> seen;
  for (std::size_t step = 0; step < 40; ++step) {
    const Batch& batch = batches.at(step);
    std::set<double> firsts;
    for (std::size_t i = 0; i < batch.count; ++i) firsts.insert(batch.resolved[i * 20 * 6]);
    EXPECT_EQ(firsts.size(), 12u);
    seen.insert(firsts.begin(), firsts.end());
  }
  EXPECT_EQ(seen.size(), 12 * starts);
}

TEST_F(Batches, FollowThePapersNoiseSchedule) {
  const TrainingData source = data();
  BatchStream batches(source, system(), stage, 1, 0, 1);
  EXPECT_TRUE(batches.at(9).noise.empty());    // step 10 of 100: s <= 0.1 S
  EXPECT_FALSE(batches.at(10).noise.empty());  // step 11
  EXPECT_FALSE(batches.at(79).noise.empty());  // step 80: s <= 0.8 S
  EXPECT_TRUE(batches.at(80).noise.empty());
  double squares = 0;
  const Batch& batch = batches.at(50);
  for (const double value : batch.noise) squares += value * value;
  // 630 samples give the deviation to 3 %; 15 % is five of those.
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(batch.noise.size())), 5e-4, 0.15 * 5e-4);
}

TEST_F(Batches, OfMeansEndOneIntervalEarlier) {
  const TrainingData source = data(1e9, Target::mean);
  const SampleShape shape = sample_shape(stage, source);
  EXPECT_EQ(shape.closures, split.times() - 1);
  std::vector<double> resolved(shape.states * 6), closure(shape.closures * 6), expected(shape.closures * 6);
  source.read({4, 0}, shape, resolved.data(), closure.data());
  split.read_closure_mean(4, 0, shape.closures, expected.data());
  EXPECT_EQ(closure, expected);
}

TEST(Augmentation, TurnsSolutionsIntoSolutions) {
  for (const std::string& name : all_systems) {
    const auto system = system_named(name);
    const Augmentation augmentation(*system);
    RandomStream values(2, Purpose::noise, 0);
    for (std::uint32_t draw = 0; draw < 20; ++draw) {
      std::vector<double> y = normal_values(system->resolved_size(), 0.5, values), rate(y.size()),
                          image(y.size());
      system->reduced_rhs(y.data(), rate.data());
      RandomStream random(1, Purpose::augmentation, draw);
      // A closure is a rate: it must turn as R^(y) does, and R^ of the image must be the image of R^.
      augmentation.apply(augmentation.draw(random), y.data(), 1, rate.data(),
                         system->symmetries().empty() ? 0 : 1);
      system->reduced_rhs(y.data(), image.data());
      for (std::size_t v = 0; v < y.size(); ++v)
        EXPECT_NEAR(image[v], rate[v], 1e-13 * (1 + std::abs(rate[v]))) << name << " " << v;  // rounding
    }
  }
}

/// As text: modes whose equations are odd, modes with a reflection alone, a pendulum with one closure for two variables.
std::vector<std::unique_ptr<System>> texts_that_reflect() {
  std::vector<std::unique_ptr<System>> systems;
  for (const char* rest :
       {"resolved = ['a[k], k = 1..3', 'b[k], k = 1..3']\nequations = '''\n"
        "s = sum(k, a[k]^2 + b[k]^2)\nda[k] = -k*b[k]*s + q\ndb[k] = k*a[k]*s + q\ndq = -q'''\n"
        "initial = { a = 1, b = 1, q = 0 }\nsymmetries = ['fourier_translation', 'reflection']\n",
        "resolved = ['a[k], k = 1..3', 'b[k], k = 1..3']\nequations = '''\n"
        "da[k] = a[k]*b[k] + q\ndb[k] = a[k]^2 + q\ndq = -q'''\n"
        "initial = { a = 1, b = 1, q = 0 }\nsymmetries = ['fourier_reflection']\n",
        "resolved = ['p', 'w']\nequations = '''\ndp = w\ndw = -sin(p) + q\ndq = -q'''\n"
        "initial = { p = 1, w = 1, q = 0 }\nsymmetries = ['reflection']\n"})
    systems.push_back(make_system(ConfigTable::parse(
        std::string("kind = 'equations'\nhidden = ['q']\nreduced = { q = 'drop' }\n") + rest, "test.toml")));
  return systems;
}

TEST(Augmentation, ReflectsEquationsAsText) {
  for (const auto& system : texts_that_reflect()) {
    const Augmentation augmentation(*system);
    const std::size_t d = system->resolved_size(), c = system->closure_size();
    RandomStream values(2, Purpose::noise, 0);
    std::size_t reflected = 0;
    for (std::uint32_t draw = 0; draw < 20; ++draw) {
      const std::vector<double> y = normal_values(d, 0.5, values);
      std::vector<double> image = y, rate(d), image_rate(d), closure(c);
      RandomStream random(1, Purpose::augmentation, draw);
      const auto element = augmentation.draw(random);
      augmentation.apply(element, image.data(), 1, nullptr, 0);
      reflected += element.reflected || element.negative;
      system->reduced_rhs(y.data(), rate.data());
      system->reduced_rhs(image.data(), image_rate.data());
      for (std::size_t j = 0; j < c; ++j) closure[j] = rate[system->closure_targets()[j]];
      augmentation.apply(element, nullptr, 0, closure.data(), 1);
      for (std::size_t j = 0; j < c; ++j)
        EXPECT_NEAR(image_rate[system->closure_targets()[j]], closure[j], 1e-13);  // rounding
    }
    EXPECT_GT(reflected, 5u);
    EXPECT_LT(reflected, 15u);
  }
}

// The device turns once where batches on the host turn twice: by the element drawn, then into the frame of its image.
TEST(Augmentation, LeadsIntoTheFrameOfItsImageInOneTurn) {
  std::vector<std::unique_ptr<System>> systems = texts_that_reflect();
  systems.resize(1);
  for (const char* name : {"burgers", "kdv"}) systems.push_back(system_named(name));
  for (const auto& system : systems) {
    const std::string name(system->name());
    const std::size_t modes = system->fourier_modes(), rows = 4;
    const Augmentation augmentation(*system);
    std::set<bool> reflections;
    for (std::uint32_t i = 0; i < 20; ++i) {
      RandomStream random(1, Purpose::augmentation, i), values(2, Purpose::noise, i);
      std::vector<double> once = normal_values(rows * 2 * modes, 0.5, values), twice = once;
      if (i % 4 == 0) once[0] = once[modes] = twice[0] = twice[modes] = 0;  // mode 1 has no phase then
      const auto drawn = augmentation.draw(random);
      reflections.insert(drawn.reflected || drawn.negative);
      augmentation.apply(drawn, twice.data(), rows, nullptr, 0);
      const std::vector<double> first(twice.begin(), twice.begin() + static_cast<std::ptrdiff_t>(2 * modes));
      enter_frame(modes, first.data(), twice.data(), rows, 2 * modes);
      augmentation.apply(augmentation.into_frame(drawn, once.data()), once.data(), rows, nullptr, 0);
      for (std::size_t k = 0; k < once.size(); ++k)
        EXPECT_NEAR(once[k], twice[k], 1e-13) << name << " " << i;  // rounding of two turns
    }
    EXPECT_EQ(reflections.size(), name == "kdv" ? 1u : 2u);
  }
}

TEST(Augmentation, DrawsFromTheWholeGroup) {
  const auto burgers = system_named("burgers"), lorenz = system_named("lorenz96");
  std::set<int> quarters;  // of the circle, the reflected one apart
  std::set<std::size_t> shifts;
  for (std::uint32_t i = 0; i < 200; ++i) {
    RandomStream a(1, Purpose::augmentation, i), b(1, Purpose::augmentation, i);
    const auto element = Augmentation(*burgers).draw(a);
    quarters.insert(static_cast<int>(element.angle / (std::numbers::pi / 2)) + (element.reflected ? 4 : 0));
    shifts.insert(Augmentation(*lorenz).draw(b).shift);
  }
  EXPECT_EQ(quarters, (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(shifts, (std::set<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(SymmetryGroups, HoldTheVariablesThatASymmetryMixes) {
  using Groups = std::vector<std::size_t>;
  EXPECT_EQ(symmetry_groups(*system_named("burgers"), 6), (Groups{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(symmetry_groups(*texts_that_reflect().front(), 6), (Groups{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(symmetry_groups(*system_named("lorenz96"), 8), Groups(8, 0));
  EXPECT_EQ(symmetry_groups(*system_named("power_grid"), 3), (Groups{0, 1, 2}));
}

TEST_F(Batches, OfMeansAreNormalisedByMeans) {
  const Normalisation fit =
      fit_scales(split, system(), InputMap(system()), Scaling::max_abs, Target::mean, split.times()).network;
  std::vector<double> largest(6), means((split.times() - 1) * 6);
  for (std::size_t i = 0; i < split.trajectories(); ++i) {
    split.read_closure_mean(i, 0, split.times() - 1, means.data());
    for (std::size_t k = 0; k < means.size(); ++k)
      largest[k % 6] = std::max(largest[k % 6], std::abs(means[k]));
  }
  EXPECT_EQ(fit.output_scale, largest);
}

TEST_F(Batches, AreNormalisedByTheirTrainingData) {
  const auto fit = [&](Scaling scaling) {
    return fit_scales(split, system(), InputMap(system()), scaling, Target::instant, split.times()).network;
  };
  const TrainingData source = data();
  std::vector<double> largest(6), sum(6), squares(6);
  double count = 0;
  std::vector<double> resolved(split.times() * 6), closure(split.times() * 6);
  for (std::size_t i = 0; i < split.trajectories(); ++i) {
    source.read({i, 0}, {split.times(), split.times()}, resolved.data(), closure.data());
    for (std::size_t k = 0; k < resolved.size(); ++k) {
      largest[k % 6] = std::max(largest[k % 6], std::abs(resolved[k]));
      sum[k % 6] += resolved[k];
      squares[k % 6] += resolved[k] * resolved[k];
    }
    count += static_cast<double>(split.times());
  }
  const Normalisation by_max = fit(Scaling::max_abs), by_deviation = fit(Scaling::mean_std),
                      by_mode = fit(Scaling::per_mode);
  for (std::size_t v = 0; v < 6; ++v) {
    const double mean = sum[v] / count;
    EXPECT_EQ(by_max.input_scale[v], largest[v]);
    EXPECT_EQ(by_max.input_mean[v], 0);
    EXPECT_NEAR(by_deviation.input_mean[v], mean, 1e-14);
    EXPECT_NEAR(by_deviation.input_scale[v], std::sqrt(squares[v] / count - mean * mean), 1e-12);
    // A translation turns phi_k into psi_k: one scale for both, no mean.
    EXPECT_EQ(by_mode.input_scale[v], by_mode.input_scale[(v + 3) % 6]);
    EXPECT_EQ(by_mode.output_scale[v], by_mode.output_scale[(v + 3) % 6]);
    EXPECT_EQ(by_mode.input_mean[v], 0);
  }
}

}  // namespace
}  // namespace mac::test
