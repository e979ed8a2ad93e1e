// runtime_bench MODEL: writes the Burgers Mamba of the paper (untrained) to MODEL and measures a step of it
// by the engine alone and through the C and C++ interfaces, which normalise, check and remember besides. They
// take turns within one run; medians over rounds so short that few are interrupted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mac/model.hpp>
#include <mac/paper_networks.hpp>
#include <mac/runtime.hpp>
#include <string_view>

namespace {

using namespace mac;

template <class Step>
double nanoseconds(std::size_t repeats, const Step& step) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < repeats; ++i) step();
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / static_cast<double>(repeats);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(const StepEngine<float>& engine, const runtime::Model& model, std::size_t columns) {
  const NetworkShape& shape = engine.shape();
  const std::vector<float> x(columns * shape.d_in, 0.3f);
  std::vector<float> c(columns * shape.d_out), memory(columns * shape.state_size());
  const std::vector<double> y(columns * shape.d_in, 0.3);
  std::vector<double> closure(columns * shape.d_out);
  runtime::State state = model.state(columns), state_cpp = state;
  std::vector<double> direct, through_c, through_cpp, overhead;
  const std::size_t repeats = std::max<std::size_t>(1, 50 / columns), rounds = columns < 1000 ? 3000 : 200;
  for (std::size_t round = 0; round < rounds; ++round) {
    direct.push_back(nanoseconds(repeats, [&] { engine.step(columns, x.data(), c.data(), memory.data()); }));
    through_c.push_back(
        nanoseconds(repeats, [&] { mac_step(state.get(), y.data(), closure.data(), nullptr); }));
    through_cpp.push_back(nanoseconds(repeats, [&] { state_cpp.step(y, closure); }));
    overhead.push_back(through_c.back() - direct.back());
  }
  std::printf("%7zu %12.0f %14.0f %10.0f %16.0f\n", columns, median(direct), median(through_c),
              median(through_cpp), median(overhead));
}

}  // namespace

int main(int argc, char** argv) try {
  const bool help = argc == 2 && std::string_view(argv[1]) == "--help";
  if (argc != 2 || help) {
    std::fprintf(help ? stdout : stderr, "usage: runtime_bench MODEL\n");
    return help ? 0 : 2;
  }
  Model model;
  model.shape = paper_network("burgers", LayerKind::mamba);
  model.parameters = initial_parameters(model.shape, 1);
  model.normalisation = Normalisation::identity(model.shape);
  save_model(model, argv[1]);

  const StepEngine<float> engine(model.shape, parameters_as<float>(model));
  std::printf("columns    engine ns    mac_step ns     C++ ns    C - engine ns\n");
  for (const std::size_t columns : {1, 50, 1000}) measure(engine, runtime::Model(argv[1]), columns);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
