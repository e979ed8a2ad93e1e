// --portable: the same weights whatever instruction sets there are.
#include <hwy/targets.h>

#include <mac/training.hpp>

#include "cli/command_line.hpp"

namespace mac {
namespace {

using test::CommandLine;
using test::read_bytes;
using test::write_bytes;

TEST_F(CommandLine, TrainsToTheBytesOfAvx2WherePortable) {
  if ((hwy::SupportedTargets() & HWY_AVX2) == 0) GTEST_SKIP() << "this processor has no AVX2";
  write_bytes(
      file("study.toml"),
      test::study +
          "[data.train]\ntrajectories = 20\nhorizon = 0.2\n[[models]]\nname = \"mac\"\nkind = \"mamba\"\n"
          "d_model = 8\nblocks = 2\nd_state = 4\n[training]\nsteps = 20\nbatch = 20\nselect = \"last\"\n");
  ASSERT_EQ(mac("generate @/study.toml -o @/data.h5 --quiet").exit_code, 0);
  const auto train = [&](const std::string& options, const std::string& name) {
    const auto result = mac("train @/study.toml --data @/data.h5 --quiet -o @/" + name + options);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return read_bytes(file(name));
  };
  const std::string portable = train(" --portable", "portable.safetensors");
  hwy::SetSupportedTargetsForTest(HWY_AVX2);
  const Experiment experiment = Experiment::read(file("study.toml"));
  const DataFile data = DataFile::open(file("data.h5"));
  mac::train(experiment, experiment.models[0], data, file("forced.safetensors"), {1, true});
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_TRUE(portable == read_bytes(file("forced.safetensors")));
  if (hwy::SupportedTargets() & HWY_AVX3) {
    EXPECT_FALSE(portable == train("", "newest.safetensors")) << "else --portable is of no use";
  }
}

}  // namespace
}  // namespace mac
