// SOAP's state on the device, for several models of one shape.
#pragma once

#include <vector>

#include "network/cuda/device.hpp"
#include "training/cuda/soap_kernels.hpp"

namespace mac::cuda {

/// The lists of a SoapProblem while they are on the host.
struct SoapPlan {
  SoapProblem problem{};  // without the lists
  std::vector<SoapTensor> tensors;
  std::vector<SoapSide> sides;
  std::vector<SoapSlab> slabs, side_slabs;
};
SoapPlan plan_soap(const NetworkShape& shape);

class DeviceSoap {
 public:
  DeviceSoap(const NetworkShape& shape, std::size_t models);

  /// The bases of a model, as in Soap; empty: those before the first step. The streams of earlier steps are done.
  void put(std::size_t model, const std::vector<float>& bases);
  void get(std::size_t model, std::vector<float>& bases, cudaStream_t stream);

  /// The caller's arrays: parameters, gradient, moments and average, (model, parameters). Bases and working
  /// memory are added here. Gradients longer than step.clip are clipped in place. With `follow` the bases
  /// follow the covariances, and the second moments them, beside what the stream does until settle(). The arrays
  /// outlive this object, which waits for that when it goes.
  void step(SoapArrays arrays, const DeviceStep& step, bool follow, const double* norms, cudaStream_t stream);
  /// Bases and second moments are complete for what the stream does from here on; step() and get() begin with it.
  void settle(cudaStream_t stream);

 private:
  std::size_t models_;
  std::vector<float> initial_bases_;
  SoapProblem problem_;
  DeviceArray<SoapTensor> tensors_;
  DeviceArray<SoapSide> sides_;
  DeviceArray<SoapSlab> slabs_, side_slabs_;
  DeviceArray<float> bases_, work_;
  DeviceArray<double> doubles_;
  DeviceArray<int> orders_;
  bool following_ = false;
  SideStream beside_;  // last, and so the first to go: it waits for the work that writes the arrays
};

}  // namespace mac::cuda
