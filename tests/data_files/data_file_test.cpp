// Data files: what generate writes, that it is the same bytes every time, and what is said about bad files.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <functional>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/rollout.hpp>

#include "data/provenance.hpp"
#include "io/hdf5.hpp"
#include "support/files.hpp"

namespace mac {
namespace {

using test::read_bytes;
using test::ScratchFolder;
using test::write_bytes;

Experiment burgers(std::size_t trajectories = 5, const std::string& extra = "") {
  return Experiment::parse(fmt::format("[system]\nname = \"burgers\"\ngrid = 32\n"
                                       "[data]\ndt = 1e-3\nstride = 10\nseed = 2\n"
                                       "[data.train]\ntrajectories = {}\nhorizon = 0.1\n"
                                       "[data.test]\ntrajectories = 2\nhorizon = 0.2\n{}",
                                       trajectories, extra),
                           "study.toml");
}

Experiment lorenz() {
  return Experiment::parse(
      "[system]\nname = \"lorenz96\"\nwarmup_steps = 100\n[data]\ndt = 0.005\nstride = 2\n"
      "[data.train]\ntrajectories = 1\nhorizon = 1.0\n[data.validation]\ncontinues = \"train\"\nhorizon = "
      "0.5\n",
      "lorenz.toml");
}

std::vector<double> resolved_of(const DataSplit& split, std::size_t trajectory) {
  std::vector<double> values(split.times() * split.resolved_size());
  split.read_resolved(trajectory, 0, split.times(), values.data());
  return values;
}

TEST(Generate, WritesTheSameBytesForAnyThreadCount) {
  const ScratchFolder folder;
  generate(burgers(), folder.file("one.h5"), {1, true});
  generate(burgers(), folder.file("three.h5"), {3, true});
  EXPECT_EQ(read_bytes(folder.file("one.h5")), read_bytes(folder.file("three.h5")));
}

TEST(Generate, MakesTrajectoryIWhateverElseIsGenerated) {
  const ScratchFolder folder;
  generate(burgers(5), folder.file("five.h5"), {2, true});
  generate(burgers(3), folder.file("three.h5"), {1, true});
  const DataFile five = DataFile::open(folder.file("five.h5")),
                 three = DataFile::open(folder.file("three.h5"));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(resolved_of(five.split("train"), i), resolved_of(three.split("train"), i));
  EXPECT_NE(resolved_of(five.split("train"), 0), resolved_of(five.split("train"), 1));
}

TEST(Generate, WritesMoreTrajectoriesThanAnAttributeCouldName) {
  const ScratchFolder folder;
  const Experiment many = Experiment::parse(
      "[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\n[data.test]\ntrajectories = "
      "5000\nhorizon = 1e-3\n",
      "many.toml");
  generate(many, folder.file("data.h5"), {2, true});
  EXPECT_EQ(DataFile::open(folder.file("data.h5")).split("test").trajectories(), 5000u);
}

TEST(Generate, SaysWhatTheFileIsAndHowToMakeItAgain) {
  const ScratchFolder folder;
  const Experiment experiment = burgers();
  generate(experiment, folder.file("data.h5"), {1, true});
  const h5::File file = h5::File::open(folder.file("data.h5"));
  EXPECT_EQ(file.string_attribute("/", "experiment"), experiment.config.text());
  EXPECT_EQ(file.string_attribute("/", "system"), "burgers");
  EXPECT_EQ(file.integer_attribute("/", "seed"), 2u);
  EXPECT_EQ(file.dataset("/train/resolved").strings_attribute("variables"),
            (std::vector<std::string>{"phi1", "phi2", "phi3", "psi1", "psi2", "psi3"}));
  EXPECT_EQ(file.dataset("/train/resolved").dims(), (std::vector<std::size_t>{5, 11, 6}));
  EXPECT_EQ(file.dataset("/train/closure_mean").dims(), (std::vector<std::size_t>{5, 10, 6}));
  EXPECT_EQ(file.dataset("/test/time").read_all().back(), 0.2);
}

TEST(Generate, WritesTextOutsideTheGlobalHeap) {
  // HDF5 follows a damaged heap ("GCOL") out of bounds or round in circles.
  const ScratchFolder folder;
  generate(burgers(), folder.file("data.h5"), {1, true});
  EXPECT_EQ(read_bytes(folder.file("data.h5")).find("GCOL"), std::string::npos);
}

TEST(Generate, KeepsALongExperimentAndALargeSeed) {
  const ScratchFolder folder;
  std::string text =
      burgers().config.text() + "# " + std::string(100'000, 'x') + "\n";  // attributes once had 64 KiB
  text.replace(text.find("seed = 2"), 8, "seed = 9223372036854775807");
  generate(Experiment::parse(text, "long.toml"), folder.file("data.h5"), {1, true});
  const h5::File file = h5::File::open(folder.file("data.h5"));
  EXPECT_EQ(file.string_attribute("/", "experiment"), text);
  EXPECT_EQ(file.integer_attribute("/", "seed"), 9223372036854775807u);
}

TEST(Generate, ContinuesTheTrainingTrajectoryForValidation) {
  const ScratchFolder folder;
  generate(lorenz(), folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  const DataSplit train = data.split("train"), validation = data.split("validation");
  std::vector<double> last(8), first(8);
  train.read_resolved(0, train.times() - 1, 1, last.data());
  validation.read_resolved(0, 0, 1, first.data());
  EXPECT_EQ(last, first);
  EXPECT_DOUBLE_EQ(validation.time().front(), 1.0);
  EXPECT_DOUBLE_EQ(validation.time().back(), 1.5);
}

TEST(Generate, GivesTheClosureItsMeanOverEachInterval) {
  // Simpson's rule on twice as fine a record of the same trajectory; its error is O(step^4).
  const ScratchFolder folder;
  Experiment coarse = burgers();
  generate(coarse, folder.file("coarse.h5"), {1, true});
  std::string text = coarse.config.text();
  text.replace(text.find("stride = 10"), 11, "stride = 5");
  generate(Experiment::parse(text, "fine.toml"), folder.file("fine.h5"), {1, true});
  const DataSplit means = DataFile::open(folder.file("coarse.h5")).split("train");
  const DataSplit fine = DataFile::open(folder.file("fine.h5")).split("train");
  std::vector<double> mean(6), samples(18);
  for (std::size_t t = 0; t < 10; ++t) {
    means.read_closure_mean(0, t, 1, mean.data());
    fine.read_closure(0, 2 * t, 3, samples.data());
    for (std::size_t j = 0; j < 6; ++j) {
      const double simpson = (samples[j] + 4 * samples[6 + j] + samples[12 + j]) / 6;
      EXPECT_NEAR(mean[j], simpson, 1e-7) << "interval " << t << ", component " << j;
    }
  }
}

TEST(Generate, LeavesNothingBehindWhenTheSolverBlowsUp) {
  const ScratchFolder folder;
  // KdV has no known stability limit to refuse, so a far too large step reaches the solver.
  const Experiment wild = Experiment::parse(
      "[system]\nname = \"kdv\"\ngrid = 256\n[data]\ndt = 0.5\n[data.test]\ntrajectories = 2\nhorizon = 50\n"
      "initial = { kind = \"uniform\", scale = 40.0 }\n",
      "wild.toml");
  try {
    generate(wild, folder.file("data.h5"), {1, true});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("blew up in trajectory 0 of split test"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Generate, RefusesAFolderThatIsNotThere) {
  EXPECT_THROW(generate(burgers(), "/no/such/folder/data.h5", {1, true}), Error);
}

// A good file, then one thing wrong with it.
struct Damage {
  const char* name;
  std::function<void(const std::string&)> apply;
  const char* message;
};

void edit(const std::string& path, const std::function<void(hid_t)>& change) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  change(file);
  H5Fclose(file);
}

/// Replaces a dataset by zeros of another shape.
void reshape(const std::string& path, const char* dataset, std::vector<hsize_t> dims, hid_t type) {
  edit(path, [&](hid_t file) {
    H5Ldelete(file, dataset, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
    H5Dclose(H5Dcreate2(file, dataset, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  });
}

void remove_trajectories(const std::string& path, const std::vector<const char*>& series, hsize_t times) {
  reshape(path, "/test/labels", {0}, H5T_C_S1);
  for (const char* name : series) reshape(path, name, {0, times, 6}, H5T_NATIVE_DOUBLE);
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"empty", [](const std::string& path) { write_bytes(path, ""); }, "is not an HDF5 file"},
      {"text", [](const std::string& path) { write_bytes(path, "time,resolved\n0,1\n"); },
       "is not an HDF5 file"},
      {"cut short", [](const std::string& path) { write_bytes(path, read_bytes(path).substr(0, 2000)); },
       "cannot open this HDF5 file"},
      {"foreign HDF5", [](const std::string& path) { h5::File::create(path).close(); },
       "was not written by mac"},
      {"other kind",
       [](const std::string& path) {
         h5::File file = h5::File::create(path);
         write_provenance(file, "rollout", burgers());
         file.close();
       },
       "is a rollout file, expected a data file"},
      {"no experiment",
       [](const std::string& path) { edit(path, [](hid_t file) { H5Adelete(file, "experiment"); }); },
       "attribute \"experiment\" is missing"},
      {"kind is a number",
       [](const std::string& path) {
         h5::File file = h5::File::create(path);
         file.set_attribute("/", "mac_kind", 3.0);
         file.close();
       },
       "attribute \"mac_kind\" is not text"},
      {"no closure",
       [](const std::string& path) {
         edit(path, [](hid_t f) { H5Ldelete(f, "/train/closure", H5P_DEFAULT); });
       },
       "/train/closure: this dataset is missing"},
      {"too few variables",
       [](const std::string& path) {
         reshape(path, "/train/resolved", {5, 11, 4}, H5T_NATIVE_DOUBLE);
       },
       "/train/resolved has shape (5, 11, 4), expected (5, 11, 6)"},
      {"mean as long as the closure",
       [](const std::string& path) {
         reshape(path, "/test/closure_mean", {2, 21, 6}, H5T_NATIVE_DOUBLE);
       },
       "/test/closure_mean has shape (2, 21, 6), expected (2, 20, 6)"},
      {"integers",
       [](const std::string& path) {
         reshape(path, "/test/closure", {2, 21, 6}, H5T_NATIVE_INT);
       },
       "does not hold floating-point numbers"},
      {"one time", [](const std::string& path) { reshape(path, "/test/time", {1}, H5T_NATIVE_DOUBLE); },
       "/test/time has fewer than two times"},
      {"no trajectory",
       [](const std::string& path) {
         remove_trajectories(path, {"/test/resolved", "/test/closure"}, 21);
         remove_trajectories(path, {"/test/closure_mean"}, 20);
       },
       "/test holds no trajectory"},
      {"no labels",
       [](const std::string& path) {
         edit(path, [](hid_t f) { H5Ldelete(f, "/test/labels", H5P_DEFAULT); });
       },
       "/test/labels: this dataset is missing"},
      {"labels are numbers",
       [](const std::string& path) { reshape(path, "/test/labels", {2}, H5T_NATIVE_DOUBLE); },
       "/test/labels is not text"},
      {"labels beyond the file",
       [](const std::string& path) {
         const hid_t type = H5Tcopy(H5T_C_S1);
         H5Tset_size(type, 1000);
         reshape(path, "/test/labels", {1'000'000'000}, type);  // never written, so the file stays short
         H5Tclose(type);
       },
       "/test/labels: has a shape that the file is too short for"},
  };
  return all;
}

TEST(DataFile, ReadsTextOfVariableLengthAsEarlierVersionsWroteIt) {
  const ScratchFolder folder;
  const std::string path = folder.file("data.h5");
  generate(burgers(), path, {1, true});
  edit(path, [](hid_t file) {
    const hid_t type = H5Tcopy(H5T_C_S1), one = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    H5Adelete(file, "mac_kind");
    const hid_t kind = H5Acreate2(file, "mac_kind", type, one, H5P_DEFAULT, H5P_DEFAULT);
    const char* value = "data";
    H5Awrite(kind, type, &value);
    const hsize_t count = 2;
    const hid_t two = H5Screate_simple(1, &count, nullptr);
    H5Ldelete(file, "/test/labels", H5P_DEFAULT);
    const hid_t labels = H5Dcreate2(file, "/test/labels", type, two, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const char* values[] = {"first", nullptr};
    H5Dwrite(labels, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    for (const auto close : {H5Dclose(labels), H5Aclose(kind), H5Sclose(two), H5Sclose(one), H5Tclose(type)})
      ASSERT_GE(close, 0);
  });
  const DataSplit split = DataFile::open(path).split("test");
  EXPECT_EQ(split.label(0), "first");
  EXPECT_EQ(split.label(1), "");
}

TEST(DataFile, NamesWhatIsWrongWithABadFile) {
  for (const Damage& damage : damages()) {
    const ScratchFolder folder;
    const std::string path = folder.file("data.h5");
    generate(burgers(), path, {1, true});
    damage.apply(path);
    try {
      DataFile::open(path);
      ADD_FAILURE() << damage.name << ": no error";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(damage.message), std::string::npos) << damage.name << ": " << message;
      EXPECT_NE(message.find(path), std::string::npos) << damage.name << ": names the file";
    }
  }
}

TEST(RolloutFile, HasATrajectory) {
  const ScratchFolder folder;
  const std::string path = folder.file("markov.h5");
  generate(burgers(), folder.file("data.h5"), {1, true});
  rollout(*make_markov(), DataFile::open(folder.file("data.h5")), path,
          {.splits = {"test"}, .quiet = true, .self_contained = true});
  EXPECT_EQ(RolloutFile::open(path).splits.at(0).trajectories(), 2u);
  remove_trajectories(path, {"/test/resolved", "/test/closure", "/test/true_resolved", "/test/true_closure"},
                      21);
  reshape(path, "/test/blow_up_time", {0}, H5T_NATIVE_DOUBLE);
  reshape(path, "/test/memory", {0, 0}, H5T_NATIVE_DOUBLE);
  EXPECT_THROW(RolloutFile::open(path), Error);
}

TEST(DataFile, NamesAMissingFileAndAMissingSplit) {
  const ScratchFolder folder;
  EXPECT_THROW(DataFile::open(folder.file("nothing.h5")), Error);
  generate(burgers(), folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  EXPECT_THROW(data.split("ood"), UsageError);
  std::vector<double> values(100 * 6);
  EXPECT_THROW(data.split("train").read_resolved(5, 0, 1, values.data()), Error);
  EXPECT_THROW(data.split("train").read_resolved(0, 5, 7, values.data()), Error);
}

}  // namespace
}  // namespace mac
