#include "data/import/splits.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/random.hpp>
#include <map>
#include <numeric>
#include <set>

namespace mac {

namespace {

constexpr std::size_t train = 0, validation = 1, test = 2;
constexpr double enough = 0.8;              // share of the times that is worth a shorter length
constexpr std::size_t most_lengths = 1000;  // that are tried
const char* const split_names[] = {"train", "validation", "test"};

/// Trajectories that share states, joined.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }
  std::size_t of(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parent_[std::max(of(a), of(b))] = std::min(of(a), of(b)); }

 private:
  std::vector<std::size_t> parent_;
};

void describe_copies(const Recordings& recordings, const ImportPlan& plan, Survey& survey) {
  if (survey.copies.empty()) return;
  const auto& [a, b] = survey.copies.front();
  const auto apart = std::ranges::find_if(survey.copies, [&](const auto& pair) {
    return recordings.part(pair.first) != recordings.part(pair.second);
  });
  if (apart != survey.copies.end() && !plan.allow_leakage)
    throw UsageError(
        "{} and {} share states, but were given for different splits: what is tested would have been "
        "learned; "
        "--allow-leakage takes them all the same",
        recordings.label(apart->first), recordings.label(apart->second));
  survey.warnings.push_back(fmt::format(
      "{} and {} share states{}: copies, or one a part of the other; {}", recordings.label(a),
      recordings.label(b),
      survey.copies.size() > 1 ? fmt::format(", so do {} pairs in all", survey.copies.size()) : "",
      plan.split == SplitBy::time ? "with --split time they leak from train into test"
                                  : "they go into the same split"));
}

/// The split of each trajectory.
std::vector<std::size_t> deal(const Recordings& recordings, const ImportPlan& plan, Survey& survey) {
  std::vector<std::size_t> split(recordings.trajectories(), train);
  Groups groups(recordings.trajectories());
  for (const auto& [a, b] : survey.copies)
    if (recordings.part(a) == recordings.part(b)) groups.join(a, b);
  std::vector<std::size_t> heads;
  std::set<std::size_t> known;
  for (const Segment& segment : survey.segments) {
    const std::size_t i = segment.trajectory;
    if (recordings.part(i) == Part::validation) split[i] = validation;
    if (recordings.part(i) == Part::test) split[i] = test;
    if (recordings.part(i) == Part::all && known.insert(groups.of(i)).second) heads.push_back(groups.of(i));
  }
  RandomStream random(plan.seed, Purpose::train_data, 0);
  for (std::size_t i = heads.size(); i > 1; --i) std::swap(heads[i - 1], heads[random.below(i)]);
  const auto share = [&](double of, const std::vector<std::string>& files) -> std::size_t {
    if (of <= 0 || !files.empty()) return 0;
    return std::max<std::size_t>(
        1, static_cast<std::size_t>(std::lround(of * static_cast<double>(heads.size()))));
  };
  const std::size_t validations = share(plan.validation, plan.validation_files),
                    tests = share(plan.test, plan.test_files);
  if (validations + tests >= heads.size())
    throw UsageError(
        "{} {} leave none for training beside {} for validation and {} for testing: say --split time to cut "
        "each in time, or "
        "--test 0 and --validation 0",
        heads.size(), survey.copies.empty() ? "trajectories" : "different trajectories", validations, tests);
  std::map<std::size_t, std::size_t> of_head;
  for (std::size_t k = 0; k < heads.size(); ++k)
    of_head[heads[k]] = k < tests ? test : k < tests + validations ? validation : train;
  for (std::size_t i = 0; i < split.size(); ++i)
    if (recordings.part(i) == Part::all && of_head.contains(groups.of(i))) split[i] = of_head[groups.of(i)];
  return split;
}

/// Parts of segments for each split.
std::vector<std::vector<Piece>> parts(const Recordings& recordings, const ImportPlan& plan, Survey& survey) {
  std::vector<std::vector<Piece>> result(3);
  if (plan.split == SplitBy::trajectory) {
    const std::vector<std::size_t> split = deal(recordings, plan, survey);
    for (std::size_t s = 0; s < survey.segments.size(); ++s)
      result[split[survey.segments[s].trajectory]].push_back({s, 0, survey.segments[s].times});
    return result;
  }
  const double for_validation = plan.validation_files.empty() ? plan.validation : 0;
  const double for_test = plan.test_files.empty() ? plan.test : 0;
  for (std::size_t s = 0; s < survey.segments.size(); ++s) {
    const std::size_t times = survey.segments[s].times;
    const Part part = recordings.part(survey.segments[s].trajectory);
    if (part != Part::all) {
      result[part == Part::test ? test : validation].push_back({s, 0, times});
      continue;
    }
    const auto share = [&](double of) { return static_cast<std::size_t>(of * static_cast<double>(times)); };
    const std::size_t last = share(for_test), middle = share(for_validation), first = times - last - middle;
    result[train].push_back({s, 0, first});
    if (middle > 1) result[validation].push_back({s, first, middle});
    if (last > 1) result[test].push_back({s, first + middle, last});
  }
  return result;
}

/// The longest of the parts' lengths that keeps four fifths of the times, when longer parts are cut into pieces of it
/// and shorter ones are left out; where none does, the one that keeps most.
std::size_t best_length(const std::vector<Piece>& parts) {
  std::vector<std::size_t> lengths;
  std::size_t total = 0;
  for (const Piece& part : parts) lengths.push_back(part.times), total += part.times;
  std::ranges::sort(lengths, std::greater<>());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  if (lengths.size() > most_lengths) lengths.resize(most_lengths);
  std::size_t best = lengths.front(), most = 0;
  for (const std::size_t length : lengths) {
    std::size_t kept = 0;
    for (const Piece& part : parts) kept += part.times / length * length;
    if (static_cast<double>(kept) >= enough * static_cast<double>(total)) return length;
    if (kept > most) most = kept, best = length;
  }
  return best;
}

}  // namespace

std::vector<ImportSplit> make_splits(const Recordings& recordings, const ImportPlan& plan, Survey& survey) {
  describe_copies(recordings, plan, survey);
  const std::vector<std::vector<Piece>> all = parts(recordings, plan, survey);
  std::vector<ImportSplit> splits;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k].empty()) continue;
    ImportSplit split{split_names[k], {}, best_length(all[k])};
    if (plan.length > 0) split.times = static_cast<std::size_t>(std::lround(plan.length / survey.dt)) + 1;
    std::size_t kept = 0, total = 0, shortest = all[k].front().times, longest = shortest;
    for (const Piece& part : all[k]) {
      total += part.times;
      shortest = std::min(shortest, part.times), longest = std::max(longest, part.times);
      for (std::size_t first = 0; first + split.times <= part.times; first += split.times) {
        split.pieces.push_back({part.segment, part.first + first, split.times});
        kept += split.times;
      }
    }
    if (split.pieces.empty())
      throw UsageError("--length {:g}: the longest trajectory of {} is {:g} long", plan.length, split.name,
                       static_cast<double>(longest - 1) * survey.dt);
    if (split.times < 2)
      throw UsageError("--length {:g}: is shorter than the step {:g}", plan.length, survey.dt);
    if (kept < total || shortest < longest || split.times < longest)
      survey.notes.push_back(fmt::format(
          "{}: trajectories of {} to {} times are cut into {} of {} times each; {} of {} times are left out",
          split.name, shortest, longest, split.pieces.size(), split.times, total - kept, total));
    splits.push_back(std::move(split));
  }
  if (splits.front().name != "train") throw UsageError("there is nothing to train on");
  return splits;
}

}  // namespace mac
