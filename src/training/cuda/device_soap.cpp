#include "training/cuda/device_soap.hpp"

#include <algorithm>

#include "training/soap.hpp"

namespace mac::cuda {

namespace {

void add_slabs(std::vector<SoapSlab>& slabs, std::size_t of, int rows) {
  for (int first = 0; first < rows; first += soap_slab_rows)
    slabs.push_back({static_cast<int>(of), first, std::min(soap_slab_rows, rows - first)});
}

/// Places in an array of `used` numbers so far.
std::size_t take(std::size_t& used, std::size_t numbers) { return std::exchange(used, used + numbers); }

void add_matrix(SoapPlan& plan, const SoapMatrix& matrix) {
  SoapProblem& p = plan.problem;
  const std::size_t m = matrix.rows, n = matrix.columns;
  const SoapTensor tensor{.rows = static_cast<int>(m),
                          .columns = static_cast<int>(n),
                          .is_matrix = true,
                          .offset = matrix.offset,
                          .P = matrix.P,
                          .Q = matrix.Q,
                          .gradient_transposed = take(p.work, m * n),
                          .Q_transposed = take(p.work, n * n),
                          .half = take(p.work, m * n),
                          .moment_half = take(p.work, m * n),
                          .rotated = take(p.work, m * n),
                          .row_order = take(p.orders, m),
                          .column_order = take(p.orders, n)};
  const auto add_side = [&](bool left, std::size_t size, std::size_t count) {
    plan.sides.push_back({.size = static_cast<int>(size),
                          .count = static_cast<int>(count),
                          .covariance = left ? matrix.L : matrix.R,
                          .basis = left ? matrix.P : matrix.Q,
                          .left = left,
                          .vectors = left ? tensor.gradient_transposed : matrix.offset,
                          .product = take(p.work, size * size),
                          .householder = take(p.doubles, 2 * size * size + 3 * size),
                          .order = left ? tensor.row_order : tensor.column_order});
  };
  add_side(true, m, n);
  add_side(false, n, m);
  add_slabs(plan.slabs, plan.tensors.size(), tensor.rows);
  plan.tensors.push_back(tensor);
}

}  // namespace

SoapPlan plan_soap(const NetworkShape& shape) {
  SoapPlan plan;
  SoapProblem& p = plan.problem;
  const std::vector<SoapMatrix> matrices = soap_matrices(shape);
  for (const SoapMatrix& matrix : matrices) add_matrix(plan, matrix);
  p.matrices = static_cast<int>(plan.tensors.size());
  p.matrix_slabs = static_cast<int>(plan.slabs.size());
  const ParameterLayout layout(shape);
  for (const TensorSpec& tensor : layout.tensors()) {
    if (std::ranges::find(matrices, tensor.offset, &SoapMatrix::offset) != matrices.end()) continue;
    add_slabs(plan.slabs, plan.tensors.size(), 1);
    plan.tensors.push_back(
        {.rows = 1, .columns = static_cast<int>(tensor.size), .is_matrix = false, .offset = tensor.offset});
  }
  // The largest take longest: they begin first.
  std::ranges::stable_sort(plan.sides, std::ranges::greater{}, &SoapSide::size);
  for (std::size_t i = 0; i < plan.sides.size(); ++i) add_slabs(plan.side_slabs, i, plan.sides[i].size);
  p.side_count = static_cast<int>(plan.sides.size());
  p.slab_count = static_cast<int>(plan.slabs.size());
  p.side_slab_count = static_cast<int>(plan.side_slabs.size());
  p.largest_side = plan.sides.empty() ? 0 : plan.sides.front().size;
  p.parameters = layout.size();
  p.bases = initial_bases<float>(matrices).size();
  return plan;
}

DeviceSoap::DeviceSoap(const NetworkShape& shape, std::size_t models)
    : models_(models), initial_bases_(initial_bases<float>(soap_matrices(shape))) {
  const SoapPlan plan = plan_soap(shape);
  upload_now(tensors_, plan.tensors);
  upload_now(sides_, plan.sides);
  upload_now(slabs_, plan.slabs);
  upload_now(side_slabs_, plan.side_slabs);
  problem_ = plan.problem;
  problem_.tensors = tensors_.data(), problem_.sides = sides_.data();
  problem_.slabs = slabs_.data(), problem_.side_slabs = side_slabs_.data();
  bases_.reserve(models * problem_.bases);
  work_.reserve(models * problem_.work);
  doubles_.reserve(models * problem_.doubles);
  orders_.reserve(models * problem_.orders);
}

void DeviceSoap::put(std::size_t model, const std::vector<float>& bases) {
  const std::vector<float>& from = bases.empty() ? initial_bases_ : bases;
  if (std::exchange(following_, false)) beside_.wait();  // the copy below waits for no such stream
  check(cudaMemcpy(bases_.data() + model * problem_.bases, from.data(), problem_.bases * sizeof(float),
                   cudaMemcpyHostToDevice),
        "copying to it");
}

void DeviceSoap::get(std::size_t model, std::vector<float>& bases, cudaStream_t stream) {
  settle(stream);
  bases.resize(problem_.bases);
  check(cudaMemcpyAsync(bases.data(), bases_.data() + model * problem_.bases, problem_.bases * sizeof(float),
                        cudaMemcpyDeviceToHost, stream),
        "copying from it");
}

void DeviceSoap::step(SoapArrays arrays, const DeviceStep& step, bool follow, const double* norms,
                      cudaStream_t stream) {
  settle(stream);
  arrays.bases = bases_.data(), arrays.work = work_.data();
  arrays.doubles = doubles_.data(), arrays.orders = orders_.data();
  const int models = static_cast<int>(models_);
  launch_soap(problem_, arrays, step, follow, norms, models, stream);
  if (!follow) return;
  // The next step needs it at its end: until then its forward and backward pass run beside this.
  launch_soap_follow(problem_, arrays, models, shared_memory().per_block, beside_.leave(stream));
  following_ = true;
}

void DeviceSoap::settle(cudaStream_t stream) {
  if (std::exchange(following_, false)) beside_.join(stream);
}

}  // namespace mac::cuda
