// What the kernels of every kind of layer are told about a network's blocks: numbers, and arrays in device
// memory. Sequences are numbered through all models: model · batch + sample.
#pragma once

#include <cstddef>

#include "network/cuda/launch_plan.hpp"

namespace mac::cuda {

struct BlocksProblem {
  int models, batch, layers;
  Groups groups;            // of a model's sequences
  int time, quads;          // of a sequence: steps, and quads of them that it takes in memory
  const float* parameters;  // (model, parameter_count)
  std::size_t parameter_count;
  std::size_t first_block;     // offset of blocks.0 in the parameters
  float* h;                    // (layer + 1 or 1, sequence, quad, d_model, 4): the residual stream
  std::size_t h_layer_stride;  // 0: one copy, overwritten by each layer
  float* tape;                 // (layer, sequence, quad, rows of the kind's tape, 4), or null
  const float* initial_state;  // (sequence, layer, state of a layer), or null
  int* counters;               // of the pipeline, zero: the next ticket, then (model, group, layer)
};

/// What a backward pass reads and leaves.
struct BlocksGradients {
  float* d_h = nullptr;  // (sequence, quad, d_model, 4): gradient of the last layer's output, then of h
  const float* d_final_state = nullptr;  // or null
  float* d_initial_state = nullptr;      // or null
  float* partials = nullptr;  // (model, group, layer, parameters of a block): each block's gradients
};

}  // namespace mac::cuda
