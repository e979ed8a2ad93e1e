// The common engine interface over the device's: copies in, computes, copies out.
#include <mac/cuda.hpp>
#include <vector>

#include "network/cuda/device_network.hpp"
#include "network/cuda_engine.hpp"

namespace mac {

namespace cuda {

namespace {

/// Keeps what the forward pass read, which its backward pass reads again.
template <class T>
struct EngineTape final : Tape {
  DeviceTape device;
  DeviceArray<T> parameters, x, initial_state;
};

template <class T>
class Engine final : public SequenceEngine<T> {
 public:
  Engine(const NetworkShape& shape, Kernels kernels) : network_(shape, 1, kernels) {}

  const NetworkShape& shape() const override { return network_.shape(); }

  std::unique_ptr<Tape> make_tape(SequenceDims) override { return std::make_unique<EngineTape<T>>(); }

  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, Tape* tape) override {
    const Sizes size = sizes(dims);
    EngineTape<T>& on_device = tape ? dynamic_cast<EngineTape<T>&>(*tape) : unrecorded_;
    on_device.parameters.upload(parameters, size.parameters, stream_);
    on_device.x.upload(x, size.x, stream_);
    if (initial_state) on_device.initial_state.upload(initial_state, size.state, stream_);
    y_.reserve(size.y);
    state_.reserve(size.state);
    network_.forward(on_device.parameters.data(), dims, on_device.x.data(), y_.data(),
                     initial_state ? on_device.initial_state.data() : nullptr,
                     final_state ? state_.data() : nullptr, tape ? &on_device.device : nullptr, stream_);
    y_.download(y, size.y, stream_);
    if (final_state) state_.download(final_state, size.state, stream_);
    stream_.wait();
  }

  void backward(const T*, SequenceDims dims, const T*, const T* initial_state, const T* d_y, Tape& tape,
                const Gradients<T>& gradients) override {
    const Sizes size = sizes(dims);
    auto& on_device = dynamic_cast<EngineTape<T>&>(tape);
    y_.upload(d_y, size.y, stream_);
    d_parameters_.reserve(size.parameters);
    d_x_.reserve(size.x);
    state_.reserve(size.state);
    if (gradients.final_state) d_final_.upload(gradients.final_state, size.state, stream_);
    network_.backward(on_device.parameters.data(), dims, on_device.x.data(),
                      initial_state ? on_device.initial_state.data() : nullptr, y_.data(), on_device.device,
                      {d_parameters_.data(), gradients.x ? d_x_.data() : nullptr,
                       gradients.initial_state ? state_.data() : nullptr,
                       gradients.final_state ? d_final_.data() : nullptr},
                      false, stream_);
    std::vector<T> d_parameters(size.parameters);
    d_parameters_.download(d_parameters.data(), size.parameters, stream_);
    if (gradients.x) d_x_.download(gradients.x, size.x, stream_);
    if (gradients.initial_state) state_.download(gradients.initial_state, size.state, stream_);
    stream_.wait();
    for (std::size_t i = 0; i < size.parameters; ++i) gradients.parameters[i] += d_parameters[i];
  }

 private:
  struct Sizes {
    std::size_t parameters, x, y, state;
  };
  Sizes sizes(SequenceDims dims) const {
    const std::size_t rows = dims.batch * dims.time;
    return {network_.parameter_count(), rows * shape().d_in, rows * shape().d_out,
            dims.batch * shape().state_size()};
  }

  Stream stream_;
  BasicDeviceNetwork<T> network_;
  EngineTape<T> unrecorded_;  // of forward passes without a tape
  DeviceArray<T> y_, state_, d_parameters_, d_x_, d_final_;
};

}  // namespace

}  // namespace cuda

template <class T>
std::unique_ptr<SequenceEngine<T>> make_cuda_engine(const NetworkShape& shape, cuda::Kernels kernels) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  return std::make_unique<cuda::Engine<T>>(shape, kernels);
}

template std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape&, cuda::Kernels);
template std::unique_ptr<SequenceEngine<double>> make_cuda_engine(const NetworkShape&, cuda::Kernels);

}  // namespace mac
