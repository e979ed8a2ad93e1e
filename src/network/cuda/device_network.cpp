#include "network/cuda/device_network.hpp"

#include <algorithm>
#include <string>

namespace mac::cuda {

namespace {

int quads_of(SequenceDims dims) { return static_cast<int>((dims.time + 3) / 4); }

/// Offset of a tensor of blocks.0 within the block.
int offset_in_block(const ParameterLayout& layout, const char* name) {
  return static_cast<int>(layout.at(std::string("blocks.0.") + name).offset -
                          layout.at("blocks.0.norm.weight").offset);
}

}  // namespace

DeviceNetwork::DeviceNetwork(const NetworkShape& shape, std::size_t models)
    : shape_(shape),
      layout_(shape),
      models_(models),
      first_block_(layout_.at("blocks.0.norm.weight").offset),
      block_size_((layout_.at("norm.weight").offset - first_block_) / shape.n_blocks) {
  shape.kind == LayerKind::mamba ? plan_mamba() : plan_gru();
  const std::size_t end_bytes = largest_end_bytes(ends(nullptr, {1, 1}));
  if (end_bytes > shared_memory().per_block)
    throw Error(
        "a network with d_in {}, d_out {} and d_model {} does not fit the CUDA engine: use the CPU engine",
        shape.d_in, shape.d_out, shape.d_model);
}

void DeviceNetwork::plan_mamba() {
  const auto offset = [&](const char* name) { return offset_in_block(layout_, name); };
  mamba_offsets_ = {offset("norm.weight"),           offset("norm.bias"),
                    offset("mamba.in_proj.weight"),  offset("mamba.conv1d.weight"),
                    offset("mamba.conv1d.bias"),     offset("mamba.x_proj.weight"),
                    offset("mamba.dt_proj.weight"),  offset("mamba.dt_proj.bias"),
                    offset("mamba.A_log"),           offset("mamba.D"),
                    offset("mamba.out_proj.weight"), static_cast<int>(block_size_)};
  for (const int states_per_thread : {3, 4}) {
    mamba_sizes_ = {static_cast<int>(shape_.d_model), static_cast<int>(shape_.d_inner()),
                    static_cast<int>(shape_.d_state), static_cast<int>(shape_.dt_rank()), states_per_thread};
    if (mamba_sizes_.padded_state() < mamba_sizes_.d_state) continue;
    const auto forward = plan_mamba_forward(mamba_sizes_, shared_memory());
    const auto backward = plan_mamba_backward(mamba_sizes_, shared_memory());
    if (!forward || !backward) continue;
    forward_plan_ = *forward, backward_plan_ = *backward;
    return;
  }
  throw Error(
      "a Mamba network with d_model {} and d_state {} does not fit the CUDA engine: use the CPU engine",
      shape_.d_model, shape_.d_state);
}

void DeviceNetwork::plan_gru() {
  const auto offset = [&](const char* name) { return offset_in_block(layout_, name); };
  gru_offsets_ = {offset("norm.weight"),        offset("norm.bias"),      offset("gru.weight_ih_l0"),
                  offset("gru.weight_hh_l0"),   offset("gru.bias_ih_l0"), offset("gru.bias_hh_l0"),
                  static_cast<int>(block_size_)};
  gru_sizes_ = {static_cast<int>(shape_.d_model)};
  const auto forward = plan_gru_forward(gru_sizes_, shared_memory());
  const auto backward = plan_gru_backward(gru_sizes_, shared_memory());
  if (!forward || !backward)
    throw Error("a GRU network with d_model {} does not fit the CUDA engine (at most {}): use the CPU engine",
                shape_.d_model, largest_gru);
  forward_plan_ = *forward, backward_plan_ = *backward;
}

EndsProblem DeviceNetwork::ends(const float* parameters, SequenceDims dims) const {
  return {static_cast<int>(shape_.d_in),
          static_cast<int>(shape_.d_out),
          static_cast<int>(shape_.d_model),
          static_cast<int>(models_),
          static_cast<int>(dims.batch),
          static_cast<int>(dims.time),
          quads_of(dims),
          segments(dims).all_quads(),
          parameters,
          layout_.size(),
          layout_.at("input_proj.weight").offset,
          layout_.at("input_proj.bias").offset,
          layout_.at("norm.weight").offset};
}

/// How sequences are cut in time.
Segments DeviceNetwork::segments(SequenceDims dims) const {
  if (shape_.kind == LayerKind::gru) return {1, quads_of(dims)};
  const int blocks = std::min(forward_plan_.blocks, backward_plan_.blocks);
  return cut_sequences(static_cast<int>(dims.batch), static_cast<int>(shape_.n_blocks), quads_of(dims),
                       multiprocessors() * blocks);
}

/// Of a sequence; those of a cut one are filled up to whole segments.
std::size_t DeviceNetwork::quads_in_memory(SequenceDims dims) const {
  return static_cast<std::size_t>(segments(dims).all_quads());
}

std::size_t DeviceNetwork::h_size(SequenceDims dims) const {
  return models_ * dims.batch * quads_in_memory(dims) * shape_.d_model * 4;
}

/// Numbers of the tape for a quad of steps of one layer.
std::size_t DeviceNetwork::activations_per_quad() const {
  return 4 * static_cast<std::size_t>(shape_.kind == LayerKind::mamba ? mamba_sizes_.tape_rows()
                                                                      : gru_sizes_.tape_rows());
}
std::size_t DeviceNetwork::checkpoints_per_quad() const {
  return shape_.kind == LayerKind::mamba ? static_cast<std::size_t>(mamba_sizes_.checkpoint_size()) : 0;
}

/// Quads of all sequences and layers.
std::size_t DeviceNetwork::tape_quads(SequenceDims dims) const {
  return models_ * dims.batch * shape_.n_blocks * quads_in_memory(dims);
}

std::size_t DeviceNetwork::tape_bytes(SequenceDims dims) const {
  const std::size_t per_quad = (shape_.n_blocks + 1) * shape_.d_model * 4 +
                               shape_.n_blocks * (activations_per_quad() + checkpoints_per_quad());
  return sizeof(float) *
         (dims.batch * quads_in_memory(dims) * per_quad + segment_states_size(dims) / models_);
}

Groups DeviceNetwork::groups(SequenceDims dims, const LaunchPlan& plan) const {
  return group_sequences(static_cast<int>(dims.batch), static_cast<int>(shape_.n_blocks),
                         multiprocessors() * plan.blocks, plan.run);
}

/// Blocks of a layer in the backward pass of a model; each leaves its own sums.
int DeviceNetwork::parts_of_layer(SequenceDims dims) const {
  const Segments cut = segments(dims);
  return cut.count > 1 ? static_cast<int>(dims.batch) * cut.count : groups(dims, backward_plan_).count;
}

/// What the problems of both kinds of layer have in common.
template <class Problem>
Problem DeviceNetwork::blocks(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                              const float* initial_state, DeviceTape* tape, cudaStream_t stream) {
  Problem problem{};
  problem.models = static_cast<int>(models_), problem.batch = static_cast<int>(dims.batch);
  problem.layers = static_cast<int>(shape_.n_blocks);
  problem.groups = groups(dims, plan);
  const Segments cut = segments(dims);
  problem.time = static_cast<int>(dims.time), problem.quads = cut.all_quads();
  problem.parameters = parameters, problem.parameter_count = layout_.size(),
  problem.first_block = first_block_;
  problem.initial_state = initial_state;
  if (tape) {
    tape->h.reserve((shape_.n_blocks + 1) * h_size(dims));
    problem.h = tape->h.data(), problem.h_layer_stride = h_size(dims);
    tape->activations.reserve(tape_quads(dims) * activations_per_quad());
    problem.tape = tape->activations.data();
  } else {
    h_.reserve(h_size(dims));
    problem.h = h_.data();
  }
  const std::size_t counters =
      cut.count > 1 ? segment_counters(problem.models * problem.batch, problem.layers, cut)
                    : 1 + models_ * static_cast<std::size_t>(problem.groups.count) * shape_.n_blocks;
  counters_.reserve(counters);
  problem.counters = counters_.data();
  check(cudaMemsetAsync(counters_.data(), 0, counters * sizeof(int), stream), "clearing counters");
  return problem;
}

MambaProblem DeviceNetwork::mamba(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                                  const float* initial_state, DeviceTape* tape, cudaStream_t stream) {
  auto problem = blocks<MambaProblem>(plan, parameters, dims, initial_state, tape, stream);
  problem.sizes = mamba_sizes_, problem.offsets = mamba_offsets_;
  problem.cut = {1, problem.time};
  if (!tape) return problem;
  tape->checkpoints.reserve(tape_quads(dims) * checkpoints_per_quad());
  problem.checkpoints = tape->checkpoints.data();
  return problem;
}

/// Numbers of the states of a layer at all segments' ends.
std::size_t DeviceNetwork::border_size(SequenceDims dims) const {
  return models_ * dims.batch * static_cast<std::size_t>(segments(dims).count) *
         (shape_.state_size() / shape_.n_blocks);
}

/// Numbers of SegmentStates.
std::size_t DeviceNetwork::segment_states_size(SequenceDims dims) const {
  const Segments cut = segments(dims);
  const std::size_t of_layer = models_ * dims.batch * static_cast<std::size_t>(cut.count) * shape_.d_inner();
  return cut.count == 1 ? 0 : shape_.n_blocks * (border_size(dims) + of_layer);
}

SegmentStates DeviceNetwork::segment_states(SequenceDims dims, DeviceArray<float>& memory) const {
  memory.reserve(segment_states_size(dims));
  return {memory.data(), memory.data() + shape_.n_blocks * border_size(dims)};
}

GruProblem DeviceNetwork::gru(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                              const float* initial_state, DeviceTape* tape, cudaStream_t stream) {
  auto problem = blocks<GruProblem>(plan, parameters, dims, initial_state, tape, stream);
  problem.sizes = gru_sizes_, problem.offsets = gru_offsets_;
  return problem;
}

void DeviceNetwork::launch(const MambaForward& problem, SequenceDims dims, DeviceTape* tape,
                           cudaStream_t stream) {
  const Segments cut = segments(dims);
  if (cut.count == 1) return launch_mamba_forward(problem, forward_plan_, stream);
  const SegmentStates states = segment_states(dims, tape ? tape->segment_states : segment_states_);
  borders_.reserve(border_size(dims));
  forward_in_segments(problem, cut, states, borders_.data(), forward_plan_, stream);
}

void DeviceNetwork::launch(MambaBackward problem, SequenceDims dims, DeviceTape& tape, cudaStream_t stream) {
  const Segments cut = segments(dims);
  if (!backward_plan_.shared_sums) {
    const std::size_t layers = cut.count == 1 ? shape_.n_blocks : 1;
    gradient_sums_.reserve(models_ * static_cast<std::size_t>(parts_of_layer(dims)) * layers *
                           mamba_gradient_floats(mamba_sizes_));
  }
  problem.gradients = gradient_sums_.data();
  if (cut.count == 1) return launch_mamba_backward(problem, backward_plan_, stream);
  borders_.reserve(2 * border_size(dims));
  backward_in_segments(problem, cut, segment_states(dims, tape.segment_states), borders_.data(),
                       backward_plan_, stream);
}

void DeviceNetwork::forward(const float* parameters, SequenceDims dims, const float* x, float* y,
                            const float* initial_state, float* final_state, DeviceTape* tape,
                            cudaStream_t stream) {
  const EndsProblem end = ends(parameters, dims);
  const auto run = [&](const auto& problem, auto launch) {
    launch_input_forward(end, x, problem.h, stream);
    launch(problem);
    launch_output_forward(end, problem.h + shape_.n_blocks * problem.h_layer_stride, y, stream);
  };
  if (shape_.kind == LayerKind::mamba)
    run(MambaForward{mamba(forward_plan_, parameters, dims, initial_state, tape, stream), final_state},
        [&](const MambaForward& problem) { launch(problem, dims, tape, stream); });
  else
    run(GruForward{gru(forward_plan_, parameters, dims, initial_state, tape, stream), final_state},
        [&](const GruForward& problem) { launch_gru_forward(problem, forward_plan_, stream); });
  check_launch("starting a forward pass");
  if (tape) tape->dims = dims;
}

void DeviceNetwork::backward(const float* parameters, SequenceDims dims, const float* x,
                             const float* initial_state, const float* d_y, DeviceTape& tape,
                             const Gradients<float>& gradients, bool add, cudaStream_t stream) {
  if (tape.dims.batch != dims.batch || tape.dims.time != dims.time)
    throw Error("the tape holds a forward pass of {} × {} steps, the backward pass asks for {} × {}",
                tape.dims.batch, tape.dims.time, dims.batch, dims.time);
  const EndsProblem end = ends(parameters, dims);
  const std::size_t block_parameters = shape_.n_blocks * block_size_;
  const std::size_t end_parts = models_ * static_cast<std::size_t>(end.parts());
  const std::size_t tail_partials = end_parts * static_cast<std::size_t>(end.tail_size());
  const std::size_t input_partials = end_parts * static_cast<std::size_t>(end.input_size());
  const int block_parts = parts_of_layer(dims);
  const std::size_t blocks_of_layer = models_ * static_cast<std::size_t>(block_parts);
  partials_.reserve(tail_partials + input_partials + blocks_of_layer * block_parameters);
  float* const of_tail = partials_.data();
  float* const of_input = of_tail + tail_partials;
  float* const of_blocks = of_input + input_partials;
  d_h_.reserve(h_size(dims));

  const auto run = [&](auto problem, auto launch) {
    problem.d_h = d_h_.data(), problem.partials = of_blocks;
    problem.d_final_state = gradients.final_state, problem.d_initial_state = gradients.initial_state;
    launch_output_backward(end, problem.h + shape_.n_blocks * problem.h_layer_stride, d_y, problem.d_h,
                           of_tail, stream);
    launch(problem);
    launch_input_backward(end, x, problem.d_h, gradients.x, of_input, stream);
  };
  if (shape_.kind == LayerKind::mamba)
    run(MambaBackward{mamba(backward_plan_, parameters, dims, initial_state, &tape, stream)},
        [&](const MambaBackward& problem) { launch(problem, dims, tape, stream); });
  else
    run(GruBackward{gru(backward_plan_, parameters, dims, initial_state, &tape, stream)},
        [&](const GruBackward& problem) { launch_gru_backward(problem, backward_plan_, stream); });

  const auto reduce = [&](const float* partials, int parts, std::size_t count, std::size_t offset) {
    launch_reduce_partials(partials, static_cast<int>(models_), parts, static_cast<int>(count),
                           gradients.parameters + offset, layout_.size(), add, stream);
  };
  reduce(of_tail, end.parts(), static_cast<std::size_t>(end.tail_size()), end.tail);
  if (segments(dims).count == 1)
    reduce(of_blocks, block_parts, block_parameters, first_block_);
  else
    for (std::size_t layer = 0; layer < shape_.n_blocks; ++layer)
      reduce(of_blocks + layer * blocks_of_layer * block_size_, block_parts, block_size_,
             first_block_ + layer * block_size_);
  reduce(of_input, end.parts(), static_cast<std::size_t>(end.input_size()), end.input_weight);
  check_launch("starting a backward pass");
}

}  // namespace mac::cuda
