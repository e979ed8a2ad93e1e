// device_step MODEL [COLUMNS ...]: microseconds of a step for a host whose fields are on the GPU (medians): the device step
// alone, one of a CUDA graph of 20, and what such a host did before: copy the fields to the host, step there on one core,
// copy the closure back.
#include <cuda_runtime.h>
#include <mac/mac_cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void require(bool fine, const char* sentence) {
  if (fine) return;
  std::fprintf(stderr, "device_step: %s\n", sentence);
  std::exit(1);
}
void require(cudaError_t status) { require(status == cudaSuccess, cudaGetErrorString(status)); }

/// Microseconds of one of the `steps` that a call takes: the median of some rounds of `repeats` calls after
/// a first one; where there is one round it is the first.
template <class Call>
double microseconds(int repeats, int steps, cudaStream_t stream, int count, const Call& call) {
  std::vector<double> rounds;
  for (int round = count > 1 ? -1 : 0; round < count; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) call();
    require(cudaStreamSynchronize(stream));
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    if (round >= 0) rounds.push_back(elapsed.count() / repeats / steps);
  }
  std::nth_element(rounds.begin(), rounds.begin() + count / 2, rounds.end());
  return rounds[static_cast<std::size_t>(count) / 2];
}

void measure(const mac_model* model, std::size_t columns) {
  const std::size_t inputs = columns * mac_model_inputs(model), outputs = columns * mac_model_outputs(model);
  const std::vector<double> fields(inputs, 0.1);
  double *y = nullptr, *closure = nullptr, *host_y = nullptr, *host_closure = nullptr;
  require(cudaMalloc(&y, inputs * sizeof *y));
  require(cudaMalloc(&closure, outputs * sizeof *closure));
  require(cudaMallocHost(&host_y, inputs * sizeof *y));  // pinned: the fastest copies
  require(cudaMallocHost(&host_closure, outputs * sizeof *closure));
  require(cudaMemcpy(y, fields.data(), inputs * sizeof *y, cudaMemcpyHostToDevice));
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  mac_error error{};
  mac_device_state* state = nullptr;
  require(mac_device_state_create(model, columns, &state, &error) == MAC_OK, error.message);
  const auto step = [&] {
    require(mac_step_device(state, y, closure, stream, &error) == MAC_OK, error.message);
  };
  const int repeats = columns < 100000 ? 200 : 5;
  const double alone = microseconds(repeats, 1, stream, 15, step);
  const auto begin = Clock::now();  // what a call costs the host
  for (int i = 0; i < repeats; ++i) step();
  const std::chrono::duration<double, std::micro> queued = Clock::now() - begin;
  require(cudaStreamSynchronize(stream));

  constexpr int captured = 20;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t run = nullptr;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < captured; ++i) step();
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphInstantiate(&run, graph, 0));
  const double replayed = microseconds(std::max(1, repeats / captured), captured, stream, 15,
                                       [&] { require(cudaGraphLaunch(run, stream)); });

  mac_state* host = nullptr;
  require(mac_state_create(model, columns, &host, &error) == MAC_OK, error.message);
  const auto through_host = [&] {
    require(cudaMemcpyAsync(host_y, y, inputs * sizeof *y, cudaMemcpyDeviceToHost, stream));
    require(cudaStreamSynchronize(stream));
    require(mac_step(host, host_y, host_closure, &error) == MAC_OK, error.message);
    require(
        cudaMemcpyAsync(closure, host_closure, outputs * sizeof *closure, cudaMemcpyHostToDevice, stream));
  };
  const double through = columns < 100000 ? microseconds(columns < 100 ? 100 : 3, 1, stream, 15, through_host)
                                          : microseconds(1, 1, stream, 1, through_host);  // seconds
  std::printf(
      "%9zu columns  step %9.1f us   in a graph %9.1f us   call %5.1f us   through the host %11.1f us   "
      "%7.0f MiB\n",
      columns, alone, replayed, queued.count() / repeats, through,
      static_cast<double>(mac_device_state_memory(state)) / (1 << 20));
  std::fflush(stdout);

  mac_state_free(host);
  mac_device_state_free(state);
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaFreeHost(host_y), cudaFreeHost(host_closure), cudaFree(y), cudaFree(closure);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: device_step MODEL.safetensors [COLUMNS ...]\n");
    return 2;
  }
  mac_error error{};
  mac_model* model = nullptr;
  require(mac_model_open(argv[1], MAC_FLOAT32, &model, &error) == MAC_OK, error.message);
  std::vector<std::size_t> batches;
  for (int i = 2; i < argc; ++i) batches.push_back(static_cast<std::size_t>(std::atoll(argv[i])));
  if (batches.empty()) batches = {1, 1000, 1000000};
  for (const std::size_t columns : batches) measure(model, columns);
  mac_model_close(model);
}
