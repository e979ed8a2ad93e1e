// kokkos MODEL: views of both layouts on Kokkos' serial backend step where they lie, as plain rows do. scripts/platforms
// runs it; on a GPU the same strides go to mac_step_device_strided (docs/device.md).
#include <mac/mac.h>

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(mac_status status, const mac_error& error) {
  if (status == MAC_OK) return;
  std::fprintf(stderr, "%s\n", error.message);
  std::exit(1);
}

/// How far the closure of three steps is from that of rows.
template <class Layout>
double distance(const mac_model* model) {
  using View = Kokkos::View<double**, Layout, Kokkos::HostSpace>;
  constexpr std::size_t columns = 7;
  const std::size_t inputs = mac_model_inputs(model), outputs = mac_model_outputs(model);
  View y("y", columns, inputs), closure("closure", columns, outputs);
  std::vector<double> rows(columns * inputs), expected(columns * outputs);
  mac_error error;
  mac_state *state = nullptr, *plain = nullptr;
  check(mac_state_create(model, columns, &state, &error), error);
  check(mac_state_create(model, columns, &plain, &error), error);
  double most = 0;
  for (int n = 0; n < 3; ++n) {
    Kokkos::parallel_for(
        Kokkos::RangePolicy<Kokkos::Serial>(0, columns), KOKKOS_LAMBDA(const std::size_t j) {
          for (std::size_t i = 0; i < inputs; ++i)
            y(j, i) = 0.1 * std::sin(static_cast<double>(j + 3 * i + n));
        });
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < inputs; ++i) rows[j * inputs + i] = y(j, i);
    check(mac_step_strided(state, y.data(), static_cast<std::ptrdiff_t>(y.stride(1)),
                           static_cast<std::ptrdiff_t>(y.stride(0)), closure.data(),
                           static_cast<std::ptrdiff_t>(closure.stride(1)),
                           static_cast<std::ptrdiff_t>(closure.stride(0)), &error),
          error);
    check(mac_step(plain, rows.data(), expected.data(), &error), error);
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < outputs; ++i)
        most = std::fmax(most, std::abs(closure(j, i) - expected[j * outputs + i]));
  }
  mac_state_free(state);
  mac_state_free(plain);
  return most;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Kokkos::ScopeGuard guard(argc, argv);
  mac_error error;
  mac_model* model = nullptr;
  check(mac_model_open(argv[1], MAC_FLOAT32, &model, &error), error);
  const double left = distance<Kokkos::LayoutLeft>(model), right = distance<Kokkos::LayoutRight>(model);
  mac_model_close(model);
  std::printf("largest difference: LayoutLeft %g, LayoutRight %g\n", left, right);
  return left == 0 && right == 0 ? 0 : 1;
}
