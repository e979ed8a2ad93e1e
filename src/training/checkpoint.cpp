#include "training/checkpoint.hpp"

#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/safetensors.hpp>
#include <nlohmann/json.hpp>
#include <span>

#include "base/standard_streams.hpp"
#include "io/atomic_file.hpp"
#include "io/xxh64.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

constexpr const char* checksum_key = "checksum";
constexpr std::size_t row_width = 5;

std::vector<double> flatten(const std::vector<HistoryRow>& history) {
  std::vector<double> flat;
  for (const HistoryRow& row : history)
    flat.insert(flat.end(), {row.step, row.loss, row.lr, row.gradient_norm, row.validation});
  return flat;
}

template <class T>
std::vector<std::int64_t> counts_of(const TrainingState<T>& state) {
  std::vector<std::int64_t> counts{static_cast<std::int64_t>(state.step),
                                   static_cast<std::int64_t>(state.best_step)};
  if (state.skipped > 0) counts.push_back(static_cast<std::int64_t>(state.skipped));
  return counts;
}

template <class T>
std::vector<double> numbers_of(const TrainingState<T>& state) {
  return {state.best_validation, state.first_loss};
}

/// All that a checkpoint holds, the optimiser's arrays in the given order.
template <class T>
std::vector<std::byte> bytes_of(const TrainingState<T>& state, const std::vector<std::string>& optimiser) {
  std::vector<std::byte> all;
  const auto add = [&]<class U>(const std::vector<U>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  add(state.parameters);
  for (const std::string& name : optimiser)
    if (const auto found = state.optimiser.find(name); found != state.optimiser.end()) add(found->second);
  add(state.average);
  add(state.best);
  add(counts_of(state));
  add(numbers_of(state));
  add(flatten(state.history));
  return all;
}

/// A flipped bit in a checkpoint must not become a different model.
template <class T>
std::string checksum(const TrainingState<T>& state) {
  std::vector<std::string> optimiser;
  for (const auto& [name, values] : state.optimiser) optimiser.push_back(name);
  return fmt::format("xxh64 {:016x}", content_hash(bytes_of(state, optimiser), 0));
}

/// FNV-1a, that of earlier versions.
template <class T>
std::string earlier_checksum(const TrainingState<T>& state) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::byte byte : bytes_of(state, optimiser_arrays))
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", hash);
}

template <class T>
bool is_whole(const TrainingState<T>& state, const std::string& stored) {
  return stored == (stored.starts_with("xxh64") ? checksum(state) : earlier_checksum(state));
}

template <class T>
TrainingState<T> read_checkpoint(const std::string& path, const TrainingIdentity& identity) {
  const Safetensors file = Safetensors::read(path);
  for (const auto& [key, value] : identity) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end() || found->second != value)
      throw UsageError("{}: belongs to another training (its {} differs); remove it to start anew", path,
                       key);
  }
  const auto array = [&](const std::string& name) {
    const std::vector<double> numbers = file.numbers(name);
    return std::vector<T>(numbers.begin(), numbers.end());
  };
  TrainingState<T> state;
  state.parameters = array("parameters");
  state.average = array("average");
  state.best = array("best");
  for (const std::string& name : optimiser_arrays)
    if (file.find(name)) state.optimiser[name] = array(name);
  const std::vector<std::int64_t> counts = file.integers("counts");
  const std::vector<double> numbers = file.numbers("numbers"), history = file.numbers("history");
  if (counts.size() < 2 || numbers.size() != 2 || history.size() % row_width != 0)
    throw Error("{}: its counts, numbers and history are not those of a training", path);
  state.step = static_cast<std::size_t>(counts[0]);
  state.best_step = static_cast<std::size_t>(counts[1]);
  if (counts.size() > 2) state.skipped = static_cast<std::size_t>(counts[2]);
  state.best_validation = numbers[0];
  state.first_loss = numbers[1];
  for (std::size_t i = 0; i + row_width <= history.size(); i += row_width) {
    const double* row = history.data() + i;
    state.history.push_back({row[0], row[1], row[2], row[3], row[4]});
  }
  const auto stored = file.metadata().find(checksum_key);
  if (stored == file.metadata().end() || !is_whole(state, stored->second))
    throw Error("{}: the checksum does not match the contents", path);
  return state;
}

}  // namespace

TrainingFiles::TrainingFiles(const std::string& path) : model(path) {
  const fs::path file(path);
  const std::string stem = (file.parent_path() / file.stem()).string();
  history = stem + ".history.csv";
  history_lines = stem + ".history.jsonl";
  checkpoint = stem + ".checkpoint.safetensors";
  previous_checkpoint = stem + ".checkpoint.previous.safetensors";
}

template <class T>
void save_checkpoint(const TrainingFiles& files, const TrainingState<T>& state,
                     const TrainingIdentity& identity) {
  SafetensorsWriter writer;
  const auto add = [&]<class U>(const std::string& name, const std::vector<U>& values) {
    writer.add(name, {values.size()}, std::span<const U>(values));
  };
  add("parameters", state.parameters);
  for (const auto& [name, values] : state.optimiser) add(name, values);
  add("average", state.average);
  add("best", state.best);
  add("counts", counts_of(state));
  add("numbers", numbers_of(state));
  const std::vector<double> history = flatten(state.history);
  writer.add("history", {state.history.size(), row_width}, std::span<const double>(history));
  for (const auto& [key, value] : identity) writer.set_metadata(key, value);
  writer.set_metadata(checksum_key, checksum(state));

  // At any moment one of the two names is a whole checkpoint.
  const std::string next = files.checkpoint + ".next";
  writer.write(next);
  std::error_code none_yet;
  fs::rename(files.checkpoint, files.previous_checkpoint, none_yet);
  fs::rename(next, files.checkpoint);
}

template <class T>
std::optional<TrainingState<T>> load_checkpoint(const TrainingFiles& files,
                                                const TrainingIdentity& identity) {
  std::string damage;
  for (const std::string& path : {files.checkpoint, files.previous_checkpoint}) {
    if (!fs::exists(path)) continue;
    try {
      TrainingState<T> state = read_checkpoint<T>(path, identity);
      if (!damage.empty())
        say("mac: {}; going on from the checkpoint before it, step {}\n", damage, state.step);
      return state;
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      if (damage.empty()) damage = error.what();
    }
  }
  if (!damage.empty())
    throw Error("{}; there is no other checkpoint to go on from: remove it to start anew", damage);
  return std::nullopt;
}

void remove_checkpoints(const TrainingFiles& files) {
  std::error_code ignored;
  fs::remove(files.checkpoint, ignored);
  fs::remove(files.previous_checkpoint, ignored);
  fs::remove(files.checkpoint + ".next", ignored);
}

void write_history(const std::string& path, const std::vector<HistoryRow>& history) {
  std::string text = "step,loss,lr,gradient_norm,validation\n";
  for (const HistoryRow& row : history)
    text += fmt::format("{:.0f},{:.9g},{:.9g},{:.9g},{}\n", row.step, row.loss, row.lr, row.gradient_norm,
                        std::isnan(row.validation) ? std::string() : fmt::format("{:.9g}", row.validation));
  write_file_atomically(path, text);
}

void write_history_lines(const std::string& path, const std::vector<HistoryRow>& history,
                         const TrainingPlan& plan) {
  std::string text;
  for (const HistoryRow& row : history) {
    std::size_t stage = 0, end = plan.stages[0].steps;
    while (row.step > static_cast<double>(end)) end += plan.stages[++stage].steps;
    nlohmann::ordered_json line{{"step", static_cast<std::size_t>(row.step)},
                                {"stage", stage + 1},
                                {"loss", row.loss},
                                {"lr", row.lr},
                                {"gradient_norm", row.gradient_norm}};
    if (!std::isnan(row.validation)) line["validation"] = row.validation;
    text += line.dump() + "\n";
  }
  write_file_atomically(path, text);
}

template void save_checkpoint(const TrainingFiles&, const TrainingState<float>&, const TrainingIdentity&);
template void save_checkpoint(const TrainingFiles&, const TrainingState<double>&, const TrainingIdentity&);
template std::optional<TrainingState<float>> load_checkpoint(const TrainingFiles&, const TrainingIdentity&);
template std::optional<TrainingState<double>> load_checkpoint(const TrainingFiles&, const TrainingIdentity&);

}  // namespace mac
