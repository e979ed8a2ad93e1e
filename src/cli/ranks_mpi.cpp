// Ranks on MPI. Only the main thread calls it (MPI_THREAD_FUNNELED).
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <mac/error.hpp>
#include <numeric>
#include <sstream>
#include <thread>

#include "base/standard_streams.hpp"
#include "cli/join.hpp"
#include "parallel/ranks.hpp"
#include "parallel/thread_count.hpp"

namespace mac::cli {

namespace {

// MPI counts in int.
constexpr std::size_t largest_piece = std::size_t{1} << 30;
constexpr int message_tag = 1;

/// How long a rank that has failed waits for the others to come to their end.
constexpr auto patience = std::chrono::seconds(5);

std::vector<int> counts_of(std::span<const std::size_t> sizes) {
  if (std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) > std::numeric_limits<int>::max())
    throw Error("ranks have more than 2 GB to say to each other at once");
  return {sizes.begin(), sizes.end()};
}

std::vector<int> starts_of(const std::vector<int>& counts) {
  std::vector<int> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
  return starts;
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int rank = 0, size = 0, length = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = static_cast<std::size_t>(rank);
    size_ = static_cast<std::size_t>(size);
    char host[MPI_MAX_PROCESSOR_NAME] = {};
    MPI_Get_processor_name(host, &length);
    name_ = fmt::format("rank {} of {} on {}", rank_, size_, host);
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::string name() const override { return name_; }

  void gather(std::byte* all, std::span<const std::size_t> sizes) override {
    const std::vector<int> counts = counts_of(sizes), starts = starts_of(counts);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, counts.data(), starts.data(), MPI_BYTE, MPI_COMM_WORLD);
  }

  void exchange(const std::byte* from, std::span<const std::size_t> to_sizes, std::byte* to,
                std::span<const std::size_t> from_sizes) override {
    const std::vector<int> out = counts_of(to_sizes), in = counts_of(from_sizes);
    MPI_Alltoallv(from, out.data(), starts_of(out).data(), MPI_BYTE, to, in.data(), starts_of(in).data(),
                  MPI_BYTE, MPI_COMM_WORLD);
  }

  void broadcast(Bytes& bytes) override {
    std::uint64_t size = bytes.size();
    MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    bytes.resize(size);
    for (std::size_t at = 0; at < size; at += largest_piece)
      MPI_Bcast(bytes.data() + at, static_cast<int>(std::min(size - at, largest_piece)), MPI_BYTE, 0,
                MPI_COMM_WORLD);
  }

  void send(std::size_t to, const Bytes& bytes) override {
    const std::uint64_t size = bytes.size();
    const int target = static_cast<int>(to);
    MPI_Send(&size, 1, MPI_UINT64_T, target, message_tag, MPI_COMM_WORLD);
    for (std::size_t at = 0; at < size; at += largest_piece)
      MPI_Send(bytes.data() + at, static_cast<int>(std::min(size - at, largest_piece)), MPI_BYTE, target,
               message_tag, MPI_COMM_WORLD);
  }

  std::optional<Message> receive() override {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, message_tag, MPI_COMM_WORLD, &there, &status);
    if (!there) return std::nullopt;
    const int from = status.MPI_SOURCE;
    std::uint64_t size = 0;
    MPI_Recv(&size, 1, MPI_UINT64_T, from, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    Message message{static_cast<std::size_t>(from), Bytes(size)};
    for (std::size_t at = 0; at < size; at += largest_piece)
      MPI_Recv(message.bytes.data() + at, static_cast<int>(std::min(size - at, largest_piece)), MPI_BYTE,
               from, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return message;
  }

 private:
  std::size_t rank_ = 0, size_ = 1;
  std::string name_;
};

MpiRanks* joined = nullptr;          // lives as long as the program
int standard_error = STDERR_FILENO;  // where a rank that is silent says its last words

/// Devices that the process may use: those that CUDA_VISIBLE_DEVICES names, else all that the driver has.
std::vector<std::string> visible_devices() {
  std::vector<std::string> devices;
  if (const char* named = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::stringstream list(named);
    for (std::string one; std::getline(list, one, ',');) devices.push_back(one);
    return devices;
  }
  std::error_code none;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
    devices.push_back(std::to_string(devices.size()));
  return devices;
}

/// Rank r of a node sees device r % count alone, in every thread. CUDA has not been called yet.
void choose_device(int rank_here) {
  const std::vector<std::string> devices = visible_devices();
  if (devices.size() > 1)
    ::setenv("CUDA_VISIBLE_DEVICES", devices[static_cast<std::size_t>(rank_here) % devices.size()].c_str(),
             1);
}

/// The cores of a node are divided among its ranks, unless each has been given its own; so are its devices.
void share_node() {
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int ranks_here = 1, rank_here = 0, cores = usable_cores(), all = 0;
  MPI_Comm_rank(node, &rank_here);
  MPI_Comm_size(node, &ranks_here);
  MPI_Allreduce(&cores, &all, 1, MPI_INT, MPI_SUM, node);
  MPI_Comm_free(&node);
  const int of_node = static_cast<int>(std::thread::hardware_concurrency());
  if (all > of_node) share_cores(std::max(1, std::min(cores, of_node) / ranks_here));
  choose_device(rank_here);
}

void be_silent() {
  standard_error = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null < 0) return;
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  ::close(null);
}

struct Outcome {
  int exit_code = 0;
  char message[1020] = {};
};

void write_last_words(const std::string& text) {
  static_cast<void>(::write(standard_error, text.data(), text.size()) < 0);
}

}  // namespace

void join_ranks() {
  const int size = launched();
  if (size <= 1) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  static MpiRanks all;
  if (all.size() == 1)
    throw UsageError(
        "{} processes were started, but MPI knows of one: this mac was built with {}, start it with the "
        "mpirun that "
        "belongs to it, or with an srun that knows it (srun --mpi=list). Where they are to work apart, say "
        "MAC_ALONE=1",
        size, mpi_description());
  joined = &all;
  use_ranks(all);
  share_node();
  if (!all.root()) be_silent();
}

int leave_ranks(int exit_code, const std::string& message) {
  if (!joined) {
    if (!message.empty()) say("{}", message);
    int started = 0;
    MPI_Initialized(&started);
    if (started) MPI_Finalize();
    return exit_code;
  }
  std::vector<Outcome> outcomes(joined->size());
  Outcome mine{exit_code, {}};
  message.copy(mine.message, sizeof mine.message - 1);
  MPI_Request request;
  MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, outcomes.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD,
                 &request);
  const auto began = std::chrono::steady_clock::now();
  for (int arrived = 0; MPI_Test(&request, &arrived, MPI_STATUS_IGNORE), !arrived;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (exit_code == 0 || std::chrono::steady_clock::now() - began < patience) continue;
    if (!message.empty()) write_last_words(fmt::format("{}: {}", joined->name(), message));
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  if (joined->root()) {
    if (!message.empty()) say("{}", message);
    for (const Outcome& other : outcomes) {
      exit_code = std::max(exit_code, other.exit_code);
      if (other.message[0] == 0 || mine.message == std::string_view(other.message)) continue;
      say("rank {}: {}", &other - outcomes.data(), other.message);
    }
  }
  MPI_Finalize();
  return joined->root() ? exit_code : 0;  // a launcher passes on rank 0's
}

std::string mpi_description() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string first(text, static_cast<std::size_t>(std::max(length, 0)));
  first = first.substr(
      0, first.find_first_of(",\n"));  // "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\n..."
  std::replace(first.begin(), first.end(), '\t', ' ');
  return first;
}

}  // namespace mac::cli
