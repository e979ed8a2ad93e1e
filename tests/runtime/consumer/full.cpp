// Links the full library: its engine takes the same step.
#include <cstdio>
#include <mac/model.hpp>
#include <mac/version.hpp>

int main(int, char** argv) try {
  const mac::Model model = mac::load_model(argv[1]);
  const mac::StepEngine<float> engine(model.shape, mac::parameters_as<float>(model));
  std::vector<float> x(model.shape.d_in), c(model.shape.d_out), memory(engine.state_size());
  const auto& n = model.normalisation;
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(((i == 0 ? 0.1 : 0.0) - n.input_mean[i]) / n.input_scale[i]);
  engine.step(1, x.data(), c.data(), memory.data());
  std::printf("%.17g\n", n.output_mean[0] + n.output_scale[0] * static_cast<double>(c[0]));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
