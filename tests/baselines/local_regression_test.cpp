// kind = "regression" with `local` and [models.inputs]: one polynomial for every site of a ring.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/open_model.hpp>
#include <mac/random.hpp>

#include "support/files.hpp"

namespace mac {
namespace {

constexpr std::size_t trajectories = 8, times = 12;

std::string study(std::size_t sites, const std::string& model) {
  std::string names;
  for (std::size_t k = 1; k <= sites; ++k) names += (k > 1 ? ", 'u" : "'u") + std::to_string(k) + "'";
  return "[system]\nname = 'recorded'\nresolved = [" + names +
         "]\nequations = 'zero'\nlattices = { u = { edges = 'periodic' } }\n[data]\ndt = 0.1\nparameters = "
         "['a']\n"
         "[data.train]\ntrajectories = 8\nhorizon = 1.1\n"
         "[[models]]\nname = 'fit'\nkind = 'regression'\nridge = 0\n" +
         model;
}

struct Made {
  std::vector<double> states, closure, means, parameters;
};

/// Random states, C_k = 1 + u_{k-1} u_k - .5 u_{k+1}^2 + a u_k + .3 u_{k+1}(t - 1 step), a a parameter.
Made make_data(std::size_t sites) {
  RandomStream random(5, Purpose::noise, 0);
  Made made;
  for (std::size_t i = 0; i < trajectories; ++i) {
    made.parameters.push_back(random.normal());
    std::vector<double> y(sites * times);
    for (double& value : y) value = 1 + random.normal();
    for (std::size_t n = 0; n < times; ++n)
      for (std::size_t k = 0; k < sites; ++k) {
        const auto u = [&](std::size_t at, std::size_t time) { return y[time * sites + at % sites]; };
        const double next = u(k + 1, n);
        made.closure.push_back(1 + u(k + sites - 1, n) * u(k, n) - 0.5 * next * next +
                               made.parameters.back() * u(k, n) + 0.3 * u(k + 1, n > 0 ? n - 1 : 0));
        if (n + 1 < times) made.means.push_back(made.closure.back());
      }
    made.states.insert(made.states.end(), y.begin(), y.end());
  }
  return made;
}

class LocalRegression : public ::testing::Test {
 protected:
  DataFile data(std::size_t sites, const std::string& model, const Made& made) {
    const std::string path = folder_.file(std::to_string(sites) + ".h5");
    write_data(Experiment::parse(study(sites, model), "study.toml"),
               {{"train", made.states, made.closure, made.means, made.parameters, {}}}, path);
    return DataFile::open(path);
  }
  void fit(std::size_t sites, const std::string& model) {
    const Experiment experiment = Experiment::parse(study(sites, model), "study.toml");
    said_ = train_baseline(experiment, experiment.models.at(0), data(sites, model, make_data(sites)),
                           folder_.file("fit.h5"), 1, true);
  }
  /// The root mean square of what the fitted model misses along the states of a ring.
  double error(std::size_t sites, const std::string& model) {
    const Made made = make_data(sites);
    const DataFile file = data(sites, model, made);
    const auto closure = open_model({folder_.file("fit.h5"), "", {}, {}}, file);
    const DataSplit split = file.split("train");
    const auto group = closure->start(split, 0, trajectories);
    std::vector<double> y(trajectories * sites), c(trajectories * sites);
    double sum = 0;
    for (std::size_t n = 0; n < times; ++n) {
      for (std::size_t i = 0; i < trajectories; ++i) split.read_resolved(i, n, 1, y.data() + i * sites);
      group->predict(n, y.data(), c.data());
      for (std::size_t k = 0; k < c.size(); ++k) {
        const double miss = c[k] - made.closure[(k / sites * times + n) * sites + k % sites];
        sum += miss * miss;
      }
    }
    return std::sqrt(sum / static_cast<double>(made.closure.size()));
  }
  test::ScratchFolder folder_;
  std::string said_;
};

const std::string whole =
    "degree = 2\ndelays = 1\nlocal = { stencil = [-1, 1], of = 'u' }\ninputs = { given = ['a'] }\n";

TEST_F(LocalRegression, FindsThePolynomialOfTheNeighboursForEverySite) {
  fit(5, whole);
  // Three neighbours and a: 15 monomials and four delays, for a closure of one site.
  EXPECT_NE(said_.find("19 terms for each of 1 closures"), std::string::npos) << said_;
  EXPECT_LT(error(5, whole), 1e-8);  // closures of order one, the smallest ridge 1e-12
}

TEST_F(LocalRegression, RunsOnARingOfAnotherLength) {
  fit(5, whole);
  EXPECT_LT(error(9, whole), 1e-8);
}

// 8 trajectories of 11 steps on 32 sites are 11 blocks of 256 rows and none left over.
TEST_F(LocalRegression, TakesRowsThatFillTheirBlocks) {
  const std::string wide =
      "degree = 2\ndelays = 1\nlocal = { stencil = [-6, 6], of = 'u' }\ninputs = { given = ['a'] }\n";
  fit(32, wide);
  EXPECT_LT(error(32, wide), 1e-7);  // 134 terms, of which 6 are in the closure
}

TEST_F(LocalRegression, MissesWhatItDoesNotRead) {
  const std::string blind = "degree = 2\ndelays = 1\nlocal = { stencil = [-1, 1], of = 'u' }\n";
  fit(5, blind);
  EXPECT_GT(error(5, blind), 0.5) << "a u_k, of deviation 1 and more";
  const std::string narrow =
      "degree = 2\ndelays = 1\nlocal = { stencil = [-1, 0], of = 'u' }\ninputs = { given = ['a'] }\n";
  fit(5, narrow);
  EXPECT_GT(error(5, narrow), 0.5) << "the neighbour to the right";
}

TEST_F(LocalRegression, ARolloutGoesOnWhereItsMemoryWasSaved) {
  const std::string noisy = whole + "noise = true\n";
  fit(5, noisy);
  const DataFile file = data(5, noisy, make_data(5));
  const auto closure = open_model({folder_.file("fit.h5"), "", {}, {}}, file);
  const DataSplit split = file.split("train");
  const auto one = closure->start(split, 1, 2), other = closure->start(split, 1, 2);
  std::vector<double> y(10), c(10), again(10), memory(2 * one->memory_size().value());
  for (std::size_t n = 0; n < 8; ++n) {
    for (std::size_t i = 0; i < 2; ++i) split.read_resolved(1 + i, n, 1, y.data() + i * 5);
    one->predict(n, y.data(), c.data());
    if (n == 4) {
      one->save_memory(memory.data());
      other->restore_memory(memory.data());
    }
    if (n <= 4) continue;
    other->predict(n, y.data(), again.data());
    EXPECT_EQ(again, c) << n;
  }
}

TEST_F(LocalRegression, MistakesAreNamed) {
  const struct {
    std::string model;
    const char* part;
  } cases[] = {
      {"local = { stencil = [-1, 1], of = 'v' }\n", "has no lattice \"v\""},
      {"inputs = { given = ['b'] }\n", "\"b\" is not among what the data give"},
      {"frame = 'initial'\n", "frame: is one of networks"},
      {"degree = 6\nlocal = { stencil = [-40, 40], of = 'u' }\n", "terms, expected at most 1500"},
  };
  for (const auto& one : cases) {
    std::string said;
    try {
      Experiment::parse(study(5, one.model), "study.toml");
    } catch (const UsageError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(one.part), std::string::npos) << one.model << ": " << said;
  }
  const std::string plain = "degree = 1\n";
  fit(5, plain);
  EXPECT_THROW(error(9, plain), UsageError) << "not local: the ring's length is that of the fit";
}

}  // namespace
}  // namespace mac
