// Kernels of equations that came as text. The compiler needs no device: what it makes of them is tested everywhere; what
// they compute, where there is one.
#include "coupling/cuda/written_kernel.hpp"

#include <mac/config.hpp>
#include <mac/system.hpp>

#include "cuda/arrays.hpp"
#include "rollout/cuda/free_rollout.hpp"
#include "training/cuda/chain_rollout.hpp"
#include "training/cuda/coupled_chains.hpp"

namespace mac::test {
namespace {

class WrittenKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cuda::runtime_compiler_unavailable(); !reason.empty())
      GTEST_SKIP() << reason;
  }
};

constexpr cuda::SharedMemory h200{232448, 233472, 1024};
constexpr int architecture = 90, processors = 132;

std::vector<cuda::KernelName> kernels_of(const WrittenEquations& equations,
                                         const cuda::PackedSizes& network) {
  std::vector<cuda::KernelName> kernels{cuda::coupled_step_name(equations),
                                        cuda::coupled_adjoint_name(equations)};
  for (const int trajectories : {1, 400, 10000})
    if (const auto launch = cuda::choose_launch(network, network.d_in, trajectories, h200, processors))
      kernels.push_back(cuda::own_rollout_kernel(network, *launch));
  if (const auto launch = cuda::choose_chain_launch(network, h200, processors)) {
    kernels.push_back(cuda::own_chains_kernel(network, *launch));
    kernels.push_back(cuda::own_chains_back_kernel(network, *launch));
  }
  return kernels;
}

TEST_F(WrittenKernels, CompileForNetworksOfEveryKindAndSize) {
  const auto system = make_system(
      ConfigTable::read(std::string(MAC_EXPERIMENTS) + "/equations/lorenz96.toml").table("system"));
  const auto equations = std::get<WrittenEquations>(system->reduced_equations()->of);
  std::vector<std::string> compiled;
  for (const LayerKind kind : {LayerKind::mamba, LayerKind::gru})
    for (const int d_model : {16, 120}) {  // with weights in shared memory, and not
      const cuda::PackedSizes network{kind, 8, 8, d_model, 2, kind == LayerKind::mamba ? 16 : 0};
      for (const cuda::KernelName& kernel : kernels_of(equations, network)) {
        if (std::ranges::count(compiled, kernel.name)) continue;
        compiled.push_back(kernel.name);
        const cuda::CompiledKernel made = cuda::compile_kernel(equations, kernel, architecture);
        EXPECT_GT(made.code.size(), 1000u) << kernel.name;
        EXPECT_FALSE(made.name.empty()) << kernel.name;
      }
    }
  EXPECT_GE(compiled.size(), 10u);
}

TEST_F(WrittenKernels, SayWhatTheCompilerSays) {
  const WrittenEquations broken{1, std::make_shared<const std::string>("this is no code")};
  try {
    cuda::compile_kernel(broken, cuda::coupled_step_name(broken), architecture);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the equations could not be compiled for the CUDA device"),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("equations.cu(2): error"), std::string::npos) << error.what();
  }
}

/// In a process of its own: a process opens the library once.
TEST(WrittenKernelsDeathTest, SayWhereTheCompilerWasLookedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto try_to_compile = [] {
    setenv("MAC_NVRTC", "/nowhere/libnvrtc.so", 1);
    const WrittenEquations equations{1, std::make_shared<const std::string>()};
    try {
      cuda::compile_kernel(equations, cuda::coupled_step_name(equations), architecture);
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::exit(1);
    }
  };
  EXPECT_EXIT(
      try_to_compile(), testing::ExitedWithCode(1),
      "cannot be compiled for the CUDA device: /nowhere/libnvrtc.so, the compiler of the CUDA toolkit, was "
      "not found; .MAC_NVRTC may say where it is, or use --device cpu");
}

}  // namespace
}  // namespace mac::test
