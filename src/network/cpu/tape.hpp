// What the sequence engine works in: records of chunks for the backward pass, and each thread's memory.
#pragma once

#include <mac/network.hpp>
#include <vector>

#include "network/cpu/sequence_blocks.hpp"
#include "network/cpu/stretch.hpp"

namespace mac::cpu {

constexpr std::size_t kSegment = 16;  // chunks

/// What the backward pass of a chunk starts from.
template <class T>
struct Record {
  T* state;  // before the chunk, (state_size, lane)
  T* h;      // input of every block and of the head, (n_blocks + 1, chunk, d_model, lane)
};

template <class T>
class RecordStore {
 public:
  RecordStore() = default;
  RecordStore(Arena<T>& arena, const NetworkShape& shape, std::size_t lanes, std::size_t count)
      : state_size_(shape.state_size() * lanes),
        size_(record_size(shape, lanes)),
        data_(arena.numbers(count * size_)) {}

  static std::size_t record_size(const NetworkShape& shape, std::size_t lanes) {
    return (shape.state_size() + (shape.n_blocks + 1) * kChunk * shape.d_model) * lanes;
  }
  Record<T> at(std::size_t index) const {
    T* const record = data_ + index * size_;
    return {record, record + state_size_};
  }

 private:
  std::size_t state_size_ = 0, size_ = 0;
  T* data_ = nullptr;
};

/// What one thread works in.
template <class T>
struct Work {
  Arena<T> arena;
  Rows<T> x, y, d_y, d_x;            // (d_in), (d_out)
  Rows<T> h, slope, u, stats;        // (d_model): head and input layer
  Rows<T> d_h, d_u;                  // (d_model)
  T *state, *d_state;                // (state_size, lane)
  Record<T> record;                  // for a forward pass without a tape
  std::unique_ptr<LayerWork> layer;  // reused by all blocks

  Work(const NetworkShape& shape, const SequenceBlocks<T>& blocks, std::size_t lanes) : arena(lanes) {
    x = arena.rows(kChunk, shape.d_in), d_x = arena.rows(kChunk, shape.d_in);
    y = arena.rows(kChunk, shape.d_out), d_y = arena.rows(kChunk, shape.d_out);
    for (Rows<T>* model : {&h, &slope, &u, &d_h, &d_u}) *model = arena.rows(kChunk, shape.d_model);
    stats = arena.rows(kChunk, 2);
    state = arena.vectors(shape.state_size()), d_state = arena.vectors(shape.state_size());
    record = RecordStore<T>(arena, shape, lanes, 1).at(0);
    layer = blocks.make_work(arena, kChunk);
  }
};

}  // namespace mac::cpu
