// mac range: a network trained without a range gets the one that training would have given it.
#include <gtest/gtest.h>

#include <mac/model.hpp>

#include "cli/command_line.hpp"

namespace mac {
namespace {

using test::CommandLine;
using test::ProgramResult;

class Range : public CommandLine {
 protected:
  Range() {
    test::write_bytes(file("trained.toml"),
                      test::study +
                          "[data.train]\ntrajectories = 3\nhorizon = 0.2\n[[models]]\nname = \"mac\"\nkind = "
                          "\"gru\"\nd_model = 3\nblocks = 1\n[training]\nselect = "
                          "\"last\"\n[[training.stages]]\nsteps = 1\n");
    EXPECT_EQ(mac("generate @/trained.toml -o @/data.h5").exit_code, 0);
    const ProgramResult trained =
        mac("train @/trained.toml --data @/data.h5 -o @/trained.safetensors --quiet");
    EXPECT_EQ(trained.exit_code, 0) << trained.output;
    Model model = load_model(file("trained.safetensors"));
    model.training_range.reset();
    program_ = model.program = "mac 0.1.0 (of another day)";
    save_model(model, file("bare.safetensors"));
  }
  std::string program_;
};

TEST_F(Range, GivesTheFileThatTrainingWouldHaveWritten) {
  const ProgramResult result = mac("range @/bare.safetensors --data @/data.h5 -o @/guarded.safetensors");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("phi1 -"), std::string::npos) << result.output;
  const auto same = [&](const char* one, const char* other) {
    return test::read_bytes(file(one)) == test::read_bytes(file(other));
  };
  EXPECT_FALSE(same("bare.safetensors", "trained.safetensors"));
  Model guarded = load_model(file("guarded.safetensors"));
  EXPECT_EQ(guarded.program, program_) << "who trained it";
  guarded.program = load_model(file("trained.safetensors")).program;
  save_model(guarded, file("guarded.safetensors"));
  EXPECT_TRUE(same("guarded.safetensors", "trained.safetensors"));
}

TEST_F(Range, OfDataThatTheNetworkIsNotForIsRefused) {
  test::write_bytes(file("other.toml"),
                    "[system]\nname = \"burgers\"\ngrid = 32\nviscosity = 0.2\n[data]\ndt = 1e-3\nstride = "
                    "10\n[data.train]\ntrajectories = 1\nhorizon = 0.1\n");
  ASSERT_EQ(mac("generate @/other.toml -o @/other.h5").exit_code, 0);
  const ProgramResult other = mac("range @/bare.safetensors --data @/other.h5 -o @/guarded.safetensors");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.output.find("viscosity"), std::string::npos) << other.output;
  const ProgramResult split =
      mac("range @/bare.safetensors --data @/data.h5 --split none -o @/guarded.safetensors");
  EXPECT_NE(split.exit_code, 0);
  EXPECT_NE(split.output.find("none"), std::string::npos) << split.output;
}

}  // namespace
}  // namespace mac
