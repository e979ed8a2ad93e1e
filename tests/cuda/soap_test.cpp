// SOAP's step on the device against the CPU's.
#include "training/soap.hpp"

#include <numeric>

#include "cuda/arrays.hpp"
#include "training/cuda/device_soap.hpp"
#include "training/cuda/kernels.hpp"

namespace mac::test {
namespace {

/// Whether `basis` is an orthonormal basis of the columns of covariance · before in the order of their
/// eigenvalues, leading spans kept. For the rank-deficient covariances of the first steps that is all there
/// is to say: the rest of the basis comes from rounding.
void expect_follows(const float* before, const float* covariance, const float* basis, std::size_t n) {
  const auto at = [n](const float* matrix, std::size_t i, std::size_t j) {
    return static_cast<double>(matrix[i * n + j]);
  };
  std::vector<double> product(n * n), eigenvalue(n);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t l = 0; l < n; ++l) {
      for (std::size_t j = 0; j < n; ++j) product[i * n + j] += at(covariance, i, l) * at(before, l, j);
      largest = larger(largest, std::abs(at(covariance, i, l)));
    }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) eigenvalue[j] += at(before, i, j) * product[i * n + j];
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t j) { return eigenvalue[j]; });
  double off_identity = 0, off_span = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double inner = 0, component = 0;
      for (std::size_t l = 0; l < n; ++l) {
        inner += at(basis, l, i) * at(basis, l, j);
        component += at(basis, l, i) * product[l * n + order[j]];
      }
      off_identity = larger(off_identity, std::abs(inner - (i == j)));
      // A vector has no component beyond its own place and, by the choice of signs, a positive one there.
      if (i > j) off_span = larger(off_span, std::abs(component));
      if (i == j) off_span = larger(off_span, -component);
    }
  // Both are orthonormal in double; then floats of 6e-8.
  EXPECT_LT(off_identity, 1e-6) << n;
  EXPECT_LT(off_span, 1e-5 * largest) << n;
}

TEST_F(CudaTraining, StepsAsSoapOnTheCpu) {
  struct Case {
    NetworkShape shape;
    std::size_t steps;
  };
  // Bases of the largest, 252 × 252 in double, don't fit a block's shared memory.
  for (const auto& [shape, steps] :
       {Case{{LayerKind::mamba, 3, 2, 6, 2, 4}, 41}, Case{{LayerKind::gru, 3, 2, 28, 1, 0}, 11},
        Case{{LayerKind::mamba, 8, 8, 63, 1, 16}, 2}}) {
    const std::size_t count = parameter_count(shape);
    auto parameters = normals<float>(count, 2), average = parameters;
    const double lr = 1e-2, decay = 1e-2, clip = 5;
    const float share = 0.1f;
    Soap<float> soap(shape, decay, 1);
    cuda::DeviceSoap device_soap(shape, 1);
    for (std::size_t step = 1; step <= steps; ++step) {
      auto gradient = normals<float>(count, static_cast<std::uint32_t>(10 + step));
      const double beta1 = 0.85 + 0.002 * static_cast<double>(step);
      // Both from the CPU's state, so that each step shows its own difference.
      const auto p = on_device(parameters), g = on_device(gradient),
                 m = on_device(soap.state().at(first_moment_key)),
                 v = on_device(soap.state().at(second_moment_key)), device_average = on_device(average);
      device_soap.put(0, step == 1 ? std::vector<float>() : soap.bases());
      cuda::DeviceArray<double> norm(1);
      cuda::launch_gradient_norm(g.data(), 1, count, norm.data(), nullptr);
      device_soap.step(
          {.parameters = p.data(),
           .gradient = g.data(),
           .first_moment = m.data(),
           .second_moment = v.data(),
           .average = device_average.data()},
          {.adam = AdamStep<float>(step, lr, decay, beta1, soap_beta2), .clip = clip, .newest_share = share},
          soap_follows(step), norm.data(), nullptr);
      std::vector<float> bases;
      device_soap.get(0, bases, nullptr);

      const std::vector<float> before = soap.bases();
      clip_gradient<float>(gradient, clip);
      soap.step(parameters, gradient, lr, beta1);
      for (std::size_t i = 0; i < count; ++i) average[i] += share * (parameters[i] - average[i]);
      // Floats up to 5, moments and covariances below 1, a few roundings in each; the step is 0.01.
      EXPECT_LT(largest_difference(from_device(p, count), parameters), 2e-6) << step;
      EXPECT_LT(largest_difference(from_device(device_average, count), average), 2e-6) << step;
      EXPECT_LT(largest_difference(from_device(m, count), soap.state().at(first_moment_key)), 1e-7) << step;
      EXPECT_LT(largest_difference(from_device(v, count), soap.state().at(second_moment_key)), 1e-7) << step;
      for (const SoapMatrix& matrix : soap_matrices(shape)) {
        const auto side = [&](std::size_t covariance, std::size_t basis, std::size_t n) {
          for (std::size_t i = covariance; i < covariance + n * n; ++i)
            ASSERT_NEAR(bases[i], soap.bases()[i], 1e-6) << step;
          if (soap_follows(step))
            expect_follows(before.data() + basis, bases.data() + covariance, bases.data() + basis, n);
          else
            EXPECT_TRUE(std::equal(&bases[basis], &bases[basis] + n * n, &before[basis])) << step;
        };
        side(matrix.L, matrix.P, matrix.rows);
        side(matrix.R, matrix.Q, matrix.columns);
      }
    }
  }
}

}  // namespace
}  // namespace mac::test
