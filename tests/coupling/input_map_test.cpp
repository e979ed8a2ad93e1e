#include "coupling/input_map.hpp"

#include <gtest/gtest.h>

#include <mac/config.hpp>
#include <mac/error.hpp>
#include <mac/random.hpp>

namespace mac {
namespace {

std::unique_ptr<System> system_of(const std::string& table) {
  return make_system(ConfigTable::parse(table, "test.toml"));
}

std::unique_ptr<System> lorenz(std::size_t n) {
  return system_of("name = \"lorenz96\"\nN = " + std::to_string(n));
}

/// u and v on a grid of 3 x 4: walls along the first direction, a ring along the second.
std::unique_ptr<System> grid() {
  std::string names = "\"p\"";
  for (const char* field : {"u", "v"})
    for (int k = 0; k < 12; ++k) names += ", \"" + std::string(field) + std::to_string(k) + "\"";
  std::string targets;
  for (int k = 0; k < 12; ++k) targets += (k ? ", \"v" : "\"v") + std::to_string(k) + "\"";
  return system_of("name = \"recorded\"\nresolved = [" + names + "]\ntargets = [" + targets + "]\n" +
                   R"(lattices.u = { extents = [3, 4], edges = ["mirror", "periodic"] }
lattices.v = { extents = [3, 4], edges = ["mirror", "periodic"] })");
}

std::vector<double> read(const InputMap& map, const std::vector<double>& y,
                         const std::vector<double>& e = {}) {
  std::vector<double> x(map.sites() * map.features());
  map.read(y.data(), e.data(),
           [&](std::size_t site, std::size_t f, double value) { x[site * map.features() + f] = value; });
  return x;
}

std::vector<double> random_values(std::size_t n, std::uint32_t stream) {
  std::vector<double> values(n);
  RandomStream(7, Purpose::noise, stream).normals(values);
  return values;
}

TEST(InputMap, ReadsAllVariablesWhereNothingElseIsSaid) {
  const auto system = lorenz(8);
  for (const InputMap& map : {InputMap(*system), InputMap(NetworkInputs{}, *system, {"F"})}) {
    EXPECT_TRUE(map.is_plain());
    EXPECT_EQ(map.feature_names(), system->resolved_names());
    const std::vector<double> y = random_values(8, 1);
    EXPECT_EQ(read(map, y, {3}), y);
    EXPECT_EQ(map.targets_among_features(), (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  }
}

TEST(InputMap, ReadsWhatIsGivenForASite) {
  const auto system = lorenz(4);
  const std::vector<std::string> given{"F", "depth1", "depth2", "depth3", "depth4"};
  const InputMap map({{"X[0]"}, {"depth", "F"}, {"X"}, {{0, 0}}}, *system, given);
  EXPECT_EQ(map.feature_names(), (std::vector<std::string>{"X[0]", "depth", "F"}));
  EXPECT_EQ(read(map, {10, 20, 30, 40}, {7, 1, 2, 3, 4}),
            (std::vector<double>{10, 1, 7, 20, 2, 7, 30, 3, 7, 40, 4, 7}));
  try {
    InputMap({{}, {"depth"}, {"X"}, {{0, 0}}}, *lorenz(5), given);
    ADD_FAILURE() << "the fifth site has none";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("nor is depth1 to depth5, one for each site"), std::string::npos)
        << error.what();
  }
}

TEST(InputMap, ReadsTheStencilOfEverySite) {
  const auto system = lorenz(5);
  const InputMap map({{}, {}, {"X"}, {{-2, 1}}}, *system, {});
  EXPECT_EQ(map.sites(), 5u);
  EXPECT_EQ(map.feature_names(), (std::vector<std::string>{"X[-2]", "X[-1]", "X[0]", "X[1]"}));
  EXPECT_EQ(map.output_names(), std::vector<std::string>{"C_X"});
  EXPECT_EQ(map.targets_among_features(), std::vector<std::size_t>{2});
  const std::vector<double> x = read(map, {10, 11, 12, 13, 14});
  EXPECT_EQ(std::vector<double>(x.begin(), x.begin() + 4), (std::vector<double>{13, 14, 10, 11}));
  EXPECT_EQ(std::vector<double>(x.end() - 4, x.end()), (std::vector<double>{12, 13, 14, 10}));
  for (std::size_t site = 0; site < 5; ++site) EXPECT_EQ(map.closure(site, 0), site);
}

TEST(InputMap, ReadsFieldsOnAGridWithWalls) {
  const auto system = grid();
  const InputMap map({{}, {"k"}, {"v", "u"}, {{-1, 0}, {0, 1}}}, *system, {"j", "k"});
  ASSERT_EQ(map.sites(), 12u);
  EXPECT_EQ(map.feature_names(), (std::vector<std::string>{"v[-1,0]", "v[-1,1]", "v[0,0]", "v[0,1]",
                                                           "u[-1,0]", "u[-1,1]", "u[0,0]", "u[0,1]", "k"}));
  EXPECT_EQ(map.output_names(), std::vector<std::string>{"C_v"});
  EXPECT_EQ(map.targets_among_features(), std::vector<std::size_t>{2});
  std::vector<double> y(25);
  for (std::size_t k = 0; k < y.size(); ++k) y[k] = static_cast<double>(k);  // p, u = 1..12, v = 13..24
  const std::vector<double> x = read(map, y, {-1, -2});
  const auto row = [&](std::size_t site) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(site * 9);
    return std::vector<double>(begin, begin + 9);
  };
  EXPECT_EQ(row(3), (std::vector<double>{16, 13, 16, 13, 4, 1, 4, 1, -2}));  // site (0, 3): the wall mirrors
  EXPECT_EQ(row(6), (std::vector<double>{15, 16, 19, 20, 3, 4, 7, 8, -2}));  // site (1, 2)
  EXPECT_EQ(map.closure(6, 0), 6u);
}

TEST(InputMap, KnowsNearestAndZeroEdges) {
  const std::string names = R"(name = "recorded"
resolved = ["u1", "u2", "u3"]
)";
  for (const auto& [edge, beyond] : {std::pair{"nearest", 5.0}, {"zero", 0.0}, {"periodic", 7.0}}) {
    const auto system = system_of(names + "lattices.u = { edges = \"" + edge + "\" }");
    const InputMap map({{}, {}, {"u"}, {{-1, 0}}}, *system, {});
    EXPECT_EQ(read(map, {5, 6, 7}), (std::vector<double>{beyond, 5, 5, 6, 6, 7})) << edge;
    EXPECT_EQ(map.targets_among_features(), std::vector<std::size_t>{1});
  }
}

TEST(InputMap, AVariableOfNoLatticeIsTheSameForAllSites) {
  const auto system = grid();
  const InputMap map({{"v[0,0]*p", "p"}, {}, {"v"}, {{0, 0}, {0, 0}}}, *system, {});
  std::vector<double> y(25, 3);
  y[0] = 2;
  for (const auto x = read(map, y); std::size_t k : {0u, 11u})
    EXPECT_EQ((std::vector<double>{x[2 * k], x[2 * k + 1]}), (std::vector<double>{6, 2}));
}

TEST(InputMap, IsEquivariantUnderShifts) {
  const auto system = lorenz(7);
  const InputMap map({{"X[-1]*X[1]", "X - X[-2]", "X[3] + X[0]"}, {}, {"X"}, {{-2, 3}}}, *system, {});
  const std::vector<double> y = random_values(7, 2), x = read(map, y);
  std::vector<double> shifted(7);
  for (std::size_t k = 0; k < 7; ++k) shifted[k] = y[(k + 2) % 7];
  const std::vector<double> image = read(map, shifted);
  for (std::size_t k = 0; k < 7; ++k)
    for (std::size_t f = 0; f < 3; ++f) EXPECT_EQ(image[k * 3 + f], x[(k + 2) % 7 * 3 + f]);
}

// Features are of degree two at most: central differences are exact up to rounding.
TEST(InputMap, TheAdjointIsThatOfTheFeatures) {
  const auto ring = lorenz(6);
  const auto fields = grid();
  const InputMap maps[] = {
      InputMap(*ring), InputMap({{"X2*X3", "X1 - X6", "X4+X4", "X5*X5", "X2"}, {"F"}, {}, {}}, *ring, {"F"}),
      InputMap({{}, {"F"}, {"X"}, {{-3, 4}}}, *ring, {"F"}),
      InputMap({{"X[-1]*X[2]", "X[0]*X[0]", "X[1]-X[-1]"}, {}, {"X"}, {{-1, 2}}}, *ring, {}),
      InputMap({{}, {}, {"v", "u"}, {{-1, 1}, {-1, 1}}}, *fields, {})};
  for (const InputMap& map : maps) {
    const std::size_t d = map.sites() == 12 ? 25 : 6;
    const std::vector<double> y = random_values(d, 3), e{2.0},
                              g = random_values(map.sites() * map.features(), 4);
    std::vector<double> gradient(d, 1.0);  // added to
    map.read_adjoint(
        y.data(), [&](std::size_t site, std::size_t f) { return g[site * map.features() + f]; },
        gradient.data());
    for (std::size_t v = 0; v < d; ++v) {
      const double h = 1e-3;
      std::vector<double> above = y, below = y;
      above[v] += h, below[v] -= h;
      const std::vector<double> a = read(map, above, e), b = read(map, below, e);
      double expected = 1;
      for (std::size_t k = 0; k < g.size(); ++k) expected += g[k] * (a[k] - b[k]) / (2 * h);
      EXPECT_NEAR(gradient[v], expected, 1e-10) << v;
    }
  }
}

std::string error_of(const NetworkInputs& inputs, const System& system,
                     const std::vector<std::string>& given = {}) {
  try {
    InputMap(inputs, system, given);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(InputMap, ErrorsNameWhatIsNotThere) {
  const auto ring = lorenz(8);
  const auto fields = grid();
  const auto burgers = system_of("name = \"burgers\"");
  const struct {
    NetworkInputs inputs;
    const System& system;
    const char* part;
  } cases[] = {
      {{{"X9"}, {}, {}, {}}, *ring, "\"X9\" is no resolved variable of lorenz96"},
      {{{"X1", "X1"}, {}, {}, {}}, *ring, "\"X1\" is there twice"},
      {{{}, {"viscosity"}, {}, {}}, *ring, "\"viscosity\" is not among what the data give from outside (F)"},
      {{{}, {}, {"Y"}, {{-1, 1}}}, *ring, "no lattice \"Y\""},
      {{{}, {}, {"u"}, {{-1, 1}}}, *burgers, "has no lattice of variables"},
      {{{}, {}, {"X"}, {{1, 2}}}, *ring, "expected from <= 0 <= to"},
      {{{}, {}, {"X"}, {{-1, 1}, {-1, 1}}}, *ring, "has 2 direction(s), the lattice X has 1"},
      {{{"X3"}, {}, {"X"}, {{-1, 1}}}, *ring, "\"X3\" is no feature of the sites of X"},
      {{{}, {}, {"u"}, {{0, 0}, {0, 0}}}, *fields, "C_v0 is that of no site"},
      {{{}, {}, {}, {}, Frame::initial},
       *ring,
       "lorenz96 is no field whose Fourier modes a translation turns"},
      {{{"phi1"}, {}, {}, {}, Frame::initial}, *burgers, "turns all resolved variables: leave out local and"},
  };
  for (const auto& one : cases)
    EXPECT_NE(error_of(one.inputs, one.system, {"F"}).find(one.part), std::string::npos)
        << one.part << " in: " << error_of(one.inputs, one.system, {"F"});
}

}  // namespace
}  // namespace mac
