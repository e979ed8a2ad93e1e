// The same in C++.
#include <cstdio>
#include <mac/runtime.hpp>

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: solver MODEL");
  const mac::runtime::Model model(argv[1]);
  mac::runtime::State state = model.state();
  std::vector<double> y(model.inputs()), closure(model.outputs());
  y[0] = 0.1;
  state.step(y, closure);
  std::printf("%.17g\n", closure[0]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
