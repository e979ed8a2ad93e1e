// Whether a closure that is not known at first is told from one that is never known.
#include "evaluation/history_need.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mac/experiment.hpp>

#include "support/files.hpp"

namespace mac {
namespace {

constexpr std::size_t times = 40, trajectories = 6;

/// y(t) = c t with a slope c of its own for each trajectory, which is the closure: at t = 0 nothing shows it.
DataFile slopes(const test::ScratchFolder& folder) {
  std::vector<double> resolved, closure, mean;
  for (std::size_t i = 0; i < trajectories; ++i)
    for (std::size_t t = 0; t < times; ++t) {
      const double slope = static_cast<double>(i) - 2.5;
      resolved.push_back(slope * 0.1 * static_cast<double>(t));
      closure.push_back(slope);
      if (t + 1 < times) mean.push_back(slope);
    }
  const Experiment experiment = Experiment::parse(
      "[system]\nname = \"recorded\"\nresolved = [\"y\"]\nequations = \"zero\"\n[data]\ndt = 0.1\n"
      "[data.validation]\ntrajectories = 6\nhorizon = 3.9\n",
      "slopes");
  write_data(experiment, {{"validation", resolved, closure, mean}}, folder.file("data.h5"));
  return DataFile::open(folder.file("data.h5"));
}

/// Knows the slope from y(t) - y(0), once `after` steps are past, up to a share that is always wrong.
class Slope final : public ClosureModel {
 public:
  Slope(std::size_t after, double wrong) : after_(after), wrong_(wrong) {}
  std::string name() const override { return "slope"; }
  HeldClosure held() const override { return {}; }
  std::unique_ptr<ClosureGroup> start(const DataSplit&, std::size_t, std::size_t count) const override {
    struct Group final : ClosureGroup {
      Group(std::size_t after, double wrong, std::size_t count) : after(after), wrong(wrong), count(count) {}
      void predict(std::size_t n, const double* y, double* closure) override {
        for (std::size_t i = 0; i < count; ++i)
          closure[i] = n < after ? 0 : y[i] / (0.1 * static_cast<double>(n)) * (1 + wrong);
      }
      std::size_t after;
      double wrong;
      std::size_t count;
    };
    return std::make_unique<Group>(after_, wrong_, count);
  }

 private:
  std::size_t after_;
  double wrong_;
};

std::optional<std::string> warning_of(const ClosureModel& model) {
  const test::ScratchFolder folder;
  const DataFile data = slopes(folder);
  return history_warning("slope", closure_errors(model, data.split("validation"), 32), 0.1);
}

TEST(HistoryNeed, IsNoticedWhereTheFirstTimesAreUnpredictable) {
  const auto warning = warning_of(Slope(5, 0.05));
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("off by 100 % of its spread, and by 5 % later"), std::string::npos) << *warning;
  EXPECT_NE(warning->find("history = 0.5 or more"), std::string::npos) << *warning;
}

TEST(HistoryNeed, IsNotSeenInAClosureThatIsBadThroughout) { EXPECT_FALSE(warning_of(Slope(1, 0.8))); }

TEST(HistoryNeed, IsNotSeenInAClosureThatIsGoodFromTheStart) {
  EXPECT_FALSE(history_warning("good", std::vector<double>(40, 0.05), 0.1));
}

}  // namespace
}  // namespace mac
