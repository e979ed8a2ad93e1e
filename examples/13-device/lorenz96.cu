// Many Lorenz '96 rings on a GPU, with a learned closure: the whole time step is one CUDA graph.
//
//   dX_k/dt = -X_{k-1} (X_{k-2} - X_{k+1}) - X_k + F + C_k           k = 1..8, periodic, F = 10
//
// Fields, closure and memory stay on the device. A step is captured once: the closure at X (mac_step_device), its values at
// the stages of RK4 (mac_closure_at_device), and the host's own kernel. At the end ring 0 is computed anew by the CPU
// runtime: chaos enlarges the rounding of float32, so that the two agree for the first time units.
#include <mac/mac_cuda.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int sites = 8, stages = 3;  // closures at the fractions 0, 1/2 and 1 of the step
constexpr double forcing = 10;

/// X from t to t + dt; closure (stages, sites). `stride` elements lie between the sites of a ring.
__host__ __device__ void runge_kutta(double* x, const double* closure, std::size_t stride,
                                     std::size_t stage_stride, double dt) {
  const double a[4] = {0, 0.5, 0.5, 1}, b[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
  const int stage_of[4] = {0, 1, 1, 2};
  double at[sites], rate[sites] = {}, sum[sites] = {};
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < sites; ++k) at[k] = x[k * stride] + a[i] * dt * rate[k];
    for (int k = 0; k < sites; ++k) {
      const double before = at[(k + sites - 1) % sites], second = at[(k + sites - 2) % sites];
      rate[k] = -before * (second - at[(k + 1) % sites]) - at[k] + forcing +
                closure[stage_of[i] * stage_stride + k * stride];
      sum[k] += b[i] * rate[k];
    }
  }
  for (int k = 0; k < sites; ++k) x[k * stride] += dt * sum[k];
}

/// A thread to a ring. Fields are x[site][ring], closure[stage][site][ring].
__global__ void advance(int rings, double dt, double* x, const double* closure) {
  const int ring = blockIdx.x * blockDim.x + threadIdx.x;
  if (ring < rings) runge_kutta(x + ring, closure + ring, rings, static_cast<std::size_t>(sites) * rings, dt);
}

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "lorenz96: %s\n", cudaGetErrorString(status));
  std::exit(1);
}
void check(mac_status status, const mac_error& error) {
  if (status == MAC_OK) return;
  std::fprintf(stderr, "lorenz96: %s\n", error.message);
  std::exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: lorenz96 MODEL.safetensors RINGS STEPS\n");
    return 2;
  }
  const int rings = std::atoi(argv[2]), steps = std::atoi(argv[3]);
  mac_error error;
  mac_model* model;
  check(mac_cuda_available(&error), error);
  check(mac_model_open(argv[1], MAC_FLOAT32, &model, &error), error);
  if (std::strcmp(mac_model_system(model), "lorenz96") != 0 || mac_model_inputs(model) != sites) {
    std::fprintf(stderr, "lorenz96: %s: is not a closure for eight sites of Lorenz '96\n", argv[1]);
    return 1;
  }
  const double dt = mac_model_closure_step(model), fractions[stages] = {0, 0.5, 1};
  const mac_hold hold = mac_model_hold(model);

  const std::size_t numbers = static_cast<std::size_t>(sites) * rings;
  std::vector<double> initial(numbers);
  for (int k = 0; k < sites; ++k)
    for (int j = 0; j < rings; ++j) initial[k * rings + j] = 3 * std::sin(1.0 + k * k + 0.01 * j) + 2;
  double *x, *closure;
  check(cudaMalloc(&x, numbers * sizeof *x));
  check(cudaMalloc(&closure, stages * numbers * sizeof *closure));
  check(cudaMemcpy(x, initial.data(), numbers * sizeof *x, cudaMemcpyHostToDevice));
  mac_device_state* state;
  check(mac_device_state_create(model, rings, &state, &error), error);

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t step;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  check(mac_step_device_strided(state, x, rings, 1, closure, rings, 1, stream, &error), error);
  for (int i = 0; i < stages; ++i)
    check(mac_closure_at_device_strided(state, hold, fractions[i], closure + i * numbers, rings, 1, stream,
                                        &error),
          error);
  advance<<<(rings + 127) / 128, 128, 0, stream>>>(rings, dt, x, closure);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&step, graph, 0));

  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  check(cudaEventRecord(begin, stream));
  for (int n = 0; n < steps; ++n) check(cudaGraphLaunch(step, stream));
  check(cudaEventRecord(end, stream));
  check(mac_device_state_check(state, stream, &error), error);  // waits; a sentence where something blew up
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  std::printf("%d rings, %d steps of %g: %.1f microseconds a step\n", rings, steps, dt,
              1000 * milliseconds / steps);

  std::vector<double> final(numbers);
  check(cudaMemcpy(final.data(), x, numbers * sizeof *x, cudaMemcpyDeviceToHost));
  mac_state* on_cpu;  // ring 0 once more
  double ring[sites], of_ring[stages][sites];
  check(mac_state_create(model, 1, &on_cpu, &error), error);
  for (int k = 0; k < sites; ++k) ring[k] = initial[k * rings];
  for (int n = 0; n < steps; ++n) {
    check(mac_step(on_cpu, ring, of_ring[0], &error), error);
    for (int i = 0; i < stages; ++i)
      check(mac_closure_at(on_cpu, hold, fractions[i], of_ring[i], &error), error);
    runge_kutta(ring, of_ring[0], 1, sites, dt);
  }
  double largest = 0;
  for (int k = 0; k < sites; ++k) {
    std::printf("X%d  %12.8f  on the CPU  %12.8f\n", k + 1, final[k * rings], ring[k]);
    largest = std::fmax(largest, std::fabs(final[k * rings] - ring[k]));
  }
  std::printf("largest difference %.1e\n", largest);
  cudaGraphExecDestroy(step);
  cudaGraphDestroy(graph);
  mac_state_free(on_cpu);
  mac_device_state_free(state);
  mac_model_close(model);
  return largest < 1e-3 ? 0 : 1;
}
