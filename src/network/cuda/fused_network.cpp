#include "network/cuda/fused_network.hpp"

namespace mac::cuda {

FusedNetwork::FusedNetwork(const NetworkShape& shape, std::size_t models,
                           std::unique_ptr<DeviceBlocks> blocks)
    : shape_(shape),
      layout_(shape),
      models_(models),
      first_block_(layout_.at("blocks.0.norm.weight").offset),
      block_size_(static_cast<std::size_t>(block_size(layout_, shape))),
      blocks_(std::move(blocks)) {}

bool FusedNetwork::fits() const {
  return largest_input_output_bytes(input_output(nullptr, {1, 1})) <= shared_memory().per_block;
}

InputOutputProblem FusedNetwork::input_output(const float* parameters, SequenceDims dims) const {
  return {static_cast<int>(shape_.d_in),
          static_cast<int>(shape_.d_out),
          static_cast<int>(shape_.d_model),
          static_cast<int>(models_),
          static_cast<int>(dims.batch),
          static_cast<int>(dims.time),
          quads_of(dims),
          blocks_->segments(dims).all_quads(),
          parameters,
          layout_.size(),
          layout_.at("input_proj.weight").offset,
          layout_.at("input_proj.bias").offset,
          layout_.at("norm.weight").offset};
}

/// Of a sequence; those of a cut one are filled up to whole segments.
std::size_t FusedNetwork::quads_in_memory(SequenceDims dims) const {
  return static_cast<std::size_t>(blocks_->segments(dims).all_quads());
}

std::size_t FusedNetwork::h_size(SequenceDims dims) const {
  return models_ * dims.batch * quads_in_memory(dims) * shape_.d_model * 4;
}

std::size_t FusedNetwork::tape_bytes(SequenceDims dims) const {
  const std::size_t per_quad =
      (shape_.n_blocks + 1) * shape_.d_model * 4 + shape_.n_blocks * blocks_->activations_per_quad();
  return sizeof(float) * (dims.batch * quads_in_memory(dims) * per_quad + blocks_->further_tape(dims));
}

Groups FusedNetwork::groups(SequenceDims dims, const LaunchPlan& plan) const {
  return group_sequences(static_cast<int>(dims.batch), static_cast<int>(shape_.n_blocks),
                         multiprocessors() * plan.blocks, plan.run);
}

/// Blocks of a layer in the backward pass of a model; each leaves its own sums.
int FusedNetwork::parts_of_layer(SequenceDims dims) const {
  const Segments cut = blocks_->segments(dims);
  return cut.count > 1 ? static_cast<int>(dims.batch) * cut.count
                       : groups(dims, blocks_->backward_plan()).count;
}

BlocksProblem FusedNetwork::blocks(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                                   const float* initial_state, DeviceTape* tape, cudaStream_t stream) {
  BlocksProblem problem{};
  problem.models = static_cast<int>(models_), problem.batch = static_cast<int>(dims.batch);
  problem.layers = static_cast<int>(shape_.n_blocks);
  problem.groups = groups(dims, plan);
  const Segments cut = blocks_->segments(dims);
  problem.time = static_cast<int>(dims.time), problem.quads = cut.all_quads();
  problem.parameters = parameters, problem.parameter_count = layout_.size(),
  problem.first_block = first_block_;
  problem.initial_state = initial_state;
  if (tape) {
    tape->h.reserve((shape_.n_blocks + 1) * h_size(dims));
    problem.h = tape->h.data(), problem.h_layer_stride = h_size(dims);
    tape->activations.reserve(models_ * dims.batch * shape_.n_blocks * quads_in_memory(dims) *
                              blocks_->activations_per_quad());
    problem.tape = tape->activations.data();
  } else {
    h_.reserve(h_size(dims));
    problem.h = h_.data();
  }
  const std::size_t counters =
      cut.count > 1 ? blocks_->counters_in_segments(dims)
                    : 1 + models_ * static_cast<std::size_t>(problem.groups.count) * shape_.n_blocks;
  counters_.reserve(counters);
  problem.counters = counters_.data();
  check(cudaMemsetAsync(counters_.data(), 0, counters * sizeof(int), stream), "clearing counters");
  return problem;
}

void FusedNetwork::forward(const float* parameters, SequenceDims dims, const float* x, float* y,
                           const float* initial_state, float* final_state, DeviceTape* tape,
                           cudaStream_t stream) {
  const InputOutputProblem frame = input_output(parameters, dims);
  const BlocksProblem problem =
      blocks(blocks_->forward_plan(), parameters, dims, initial_state, tape, stream);
  launch_input_forward(frame, x, problem.h, stream);
  blocks_->forward(problem, dims, final_state, tape, stream);
  launch_output_forward(frame, problem.h + shape_.n_blocks * problem.h_layer_stride, y, stream);
  check_launch("starting a forward pass");
  if (tape) tape->dims = dims;
}

void FusedNetwork::backward(const float* parameters, SequenceDims dims, const float* x,
                            const float* initial_state, const float* d_y, DeviceTape& tape,
                            const Gradients<float>& gradients, bool add, cudaStream_t stream) {
  tape.expect(dims);
  const InputOutputProblem frame = input_output(parameters, dims);
  const std::size_t block_parameters = shape_.n_blocks * block_size_;
  const std::size_t frame_parts = models_ * static_cast<std::size_t>(frame.parts());
  const std::size_t tail_partials = frame_parts * static_cast<std::size_t>(frame.tail_size());
  const std::size_t input_partials = frame_parts * static_cast<std::size_t>(frame.input_size());
  const int block_parts = parts_of_layer(dims);
  const std::size_t blocks_of_layer = models_ * static_cast<std::size_t>(block_parts);
  partials_.reserve(tail_partials + input_partials + blocks_of_layer * block_parameters);
  float* const of_tail = partials_.data();
  float* const of_input = of_tail + tail_partials;
  float* const of_blocks = of_input + input_partials;
  d_h_.reserve(h_size(dims));

  const BlocksProblem problem =
      blocks(blocks_->backward_plan(), parameters, dims, initial_state, &tape, stream);
  launch_output_backward(frame, problem.h + shape_.n_blocks * problem.h_layer_stride, d_y, d_h_.data(),
                         of_tail, stream);
  blocks_->backward(problem, {d_h_.data(), gradients.final_state, gradients.initial_state, of_blocks}, dims,
                    tape, stream);
  launch_input_backward(frame, x, d_h_.data(), gradients.x, of_input, stream);

  const auto reduce = [&](const float* partials, int parts, std::size_t count, std::size_t offset) {
    launch_reduce_partials(partials, static_cast<int>(models_), parts, static_cast<int>(count),
                           gradients.parameters + offset, layout_.size(), add, stream);
  };
  reduce(of_tail, frame.parts(), static_cast<std::size_t>(frame.tail_size()), frame.tail);
  if (blocks_->segments(dims).count == 1)
    reduce(of_blocks, block_parts, block_parameters, first_block_);
  else
    for (std::size_t layer = 0; layer < shape_.n_blocks; ++layer)
      reduce(of_blocks + layer * blocks_of_layer * block_size_, block_parts, block_size_,
             first_block_ + layer * block_size_);
  reduce(of_input, frame.parts(), static_cast<std::size_t>(frame.input_size()), frame.input_weight);
  check_launch("starting a backward pass");
}

}  // namespace mac::cuda
