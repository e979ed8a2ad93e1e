#include "training/checkpoint.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/safetensors.hpp>

#include "io/atomic_file.hpp"
#include "io/standard_streams.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

constexpr const char* checksum_key = "checksum";
constexpr std::size_t row_width = 5;

/// FNV-1a over the bytes of all arrays: a flipped bit in a checkpoint must not become a different model.
class Checksum {
 public:
  template <class U>
  void add(const std::vector<U>& values) {
    for (const U& value : values) {
      unsigned char bytes[sizeof(U)];
      std::memcpy(bytes, &value, sizeof(U));
      for (const unsigned char byte : bytes) hash_ = (hash_ ^ byte) * 0x100000001b3ULL;
    }
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

std::vector<double> flatten(const std::vector<HistoryRow>& history) {
  std::vector<double> flat;
  for (const HistoryRow& row : history)
    flat.insert(flat.end(), {row.step, row.loss, row.lr, row.gradient_norm, row.validation});
  return flat;
}

/// The arrays and numbers of a state under their names in the file, for writing and reading alike.
template <class T>
struct Fields {
  std::vector<std::pair<const char*, std::vector<T>*>> arrays;
  std::vector<std::int64_t> counts;  // step, best_step
  std::vector<double> numbers;       // best_validation, first_loss
  std::vector<double> history;

  explicit Fields(TrainingState<T>& state)
      : arrays{{"parameters", &state.parameters},
               {"first_moment", &state.first_moment},
               {"second_moment", &state.second_moment},
               {"bases", &state.bases},
               {"average", &state.average},
               {"best", &state.best}} {}

  std::string checksum() const {
    Checksum sum;
    for (const auto& [name, values] : arrays) sum.add(*values);
    sum.add(counts);
    sum.add(numbers);
    sum.add(history);
    return sum.text();
  }
};

template <class T>
TrainingState<T> read_checkpoint(const std::string& path, const TrainingIdentity& identity) {
  const Safetensors file = Safetensors::read(path);
  for (const auto& [key, value] : identity) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end() || found->second != value)
      throw UsageError("{}: belongs to another training (its {} differs); remove it to start anew", path,
                       key);
  }
  TrainingState<T> state;
  Fields<T> fields(state);
  for (const auto& [name, values] : fields.arrays) {
    const std::vector<double> numbers = file.numbers(name);
    values->assign(numbers.begin(), numbers.end());
  }
  fields.counts = file.integers("counts");
  fields.numbers = file.numbers("numbers");
  fields.history = file.numbers("history");
  const auto checksum = file.metadata().find(checksum_key);
  if (checksum == file.metadata().end() || checksum->second != fields.checksum())
    throw Error("{}: the checksum does not match the contents", path);
  state.step = static_cast<std::size_t>(fields.counts.at(0));
  state.best_step = static_cast<std::size_t>(fields.counts.at(1));
  state.best_validation = fields.numbers.at(0);
  state.first_loss = fields.numbers.at(1);
  for (std::size_t i = 0; i + row_width <= fields.history.size(); i += row_width) {
    const double* row = fields.history.data() + i;
    state.history.push_back({row[0], row[1], row[2], row[3], row[4]});
  }
  return state;
}

}  // namespace

TrainingFiles::TrainingFiles(const std::string& path) : model(path) {
  const fs::path file(path);
  const std::string stem = (file.parent_path() / file.stem()).string();
  history = stem + ".history.csv";
  checkpoint = stem + ".checkpoint.safetensors";
  previous_checkpoint = stem + ".checkpoint.previous.safetensors";
}

template <class T>
void save_checkpoint(const TrainingFiles& files, const TrainingState<T>& state,
                     const TrainingIdentity& identity) {
  TrainingState<T> copy = state;
  Fields<T> fields(copy);
  fields.counts = {static_cast<std::int64_t>(state.step), static_cast<std::int64_t>(state.best_step)};
  fields.numbers = {state.best_validation, state.first_loss};
  fields.history = flatten(state.history);

  SafetensorsWriter writer;
  for (const auto& [name, values] : fields.arrays)
    writer.add(name, {values->size()}, std::span<const T>(*values));
  writer.add("counts", {fields.counts.size()}, std::span<const std::int64_t>(fields.counts));
  writer.add("numbers", {fields.numbers.size()}, std::span<const double>(fields.numbers));
  writer.add("history", {state.history.size(), row_width}, std::span<const double>(fields.history));
  for (const auto& [key, value] : identity) writer.set_metadata(key, value);
  writer.set_metadata(checksum_key, fields.checksum());

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

template void save_checkpoint(const TrainingFiles&, const TrainingState<float>&, const TrainingIdentity&);
template void save_checkpoint(const TrainingFiles&, const TrainingState<double>&, const TrainingIdentity&);
template std::optional<TrainingState<float>> load_checkpoint(const TrainingFiles&, const TrainingIdentity&);
template std::optional<TrainingState<double>> load_checkpoint(const TrainingFiles&, const TrainingIdentity&);

}  // namespace mac
