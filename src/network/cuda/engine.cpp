// The common engine interface over the device's: copies in, computes, copies out.
#include <mac/cuda.hpp>
#include <vector>

#include "network/cuda/device_network.hpp"

namespace mac {

namespace cuda {

namespace {

class Engine final : public SequenceEngine<float> {
 public:
  explicit Engine(const NetworkShape& shape) : network_(shape, 1) {}

  const NetworkShape& shape() const override { return network_.shape(); }

  std::unique_ptr<Tape> make_tape(SequenceDims) override { return std::make_unique<DeviceTape>(); }

  void forward(const float* parameters, SequenceDims dims, const float* x, float* y,
               const float* initial_state, float* final_state, Tape* tape) override {
    const Sizes size = sizes(dims);
    upload(parameters, dims, x, initial_state);
    y_.reserve(size.y);
    state_out_.reserve(size.state);
    network_.forward(parameters_.data(), dims, x_.data(), y_.data(),
                     initial_state ? state_in_.data() : nullptr, final_state ? state_out_.data() : nullptr,
                     tape ? &dynamic_cast<DeviceTape&>(*tape) : nullptr, stream_);
    y_.download(y, size.y, stream_);
    if (final_state) state_out_.download(final_state, size.state, stream_);
    stream_.wait();
  }

  void backward(const float* parameters, SequenceDims dims, const float* x, const float* initial_state,
                const float* d_y, Tape& tape, const Gradients<float>& gradients) override {
    const Sizes size = sizes(dims);
    upload(parameters, dims, x, initial_state);
    y_.upload(d_y, size.y, stream_);
    d_parameters_.reserve(size.parameters);
    d_x_.reserve(size.x);
    state_out_.reserve(size.state);
    if (gradients.final_state) d_final_.upload(gradients.final_state, size.state, stream_);
    network_.backward(parameters_.data(), dims, x_.data(), initial_state ? state_in_.data() : nullptr,
                      y_.data(), dynamic_cast<DeviceTape&>(tape),
                      {d_parameters_.data(), gradients.x ? d_x_.data() : nullptr,
                       gradients.initial_state ? state_out_.data() : nullptr,
                       gradients.final_state ? d_final_.data() : nullptr},
                      false, stream_);
    std::vector<float> d_parameters(size.parameters);
    d_parameters_.download(d_parameters.data(), size.parameters, stream_);
    if (gradients.x) d_x_.download(gradients.x, size.x, stream_);
    if (gradients.initial_state) state_out_.download(gradients.initial_state, size.state, stream_);
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

  void upload(const float* parameters, SequenceDims dims, const float* x, const float* initial_state) {
    const Sizes size = sizes(dims);
    parameters_.upload(parameters, size.parameters, stream_);
    x_.upload(x, size.x, stream_);
    if (initial_state) state_in_.upload(initial_state, size.state, stream_);
  }

  Stream stream_;
  DeviceNetwork network_;
  DeviceArray<float> parameters_, x_, y_, state_in_, state_out_, d_parameters_, d_x_, d_final_;
};

}  // namespace

}  // namespace cuda

std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape& shape) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  return std::make_unique<cuda::Engine>(shape);
}

}  // namespace mac
