// Packing weights for steps with channels in vector lanes.
//
// A linear layer becomes out = bias + Σ_i x[i]·W[:, i]: one broadcast input times a row of packed weights,
// the outputs in lanes. Rows are padded with zeros to whole vectors, so padding channels stay zero all the
// way.
#pragma once

#include <cstddef>

namespace mac::cpu {

template <class T>
struct PackedLinear {
  const T* weight;      // (inputs, outputs)
  const T* bias;        // (outputs); null: none
  std::size_t inputs;   // not padded
  std::size_t outputs;  // padded
};

/// Hands out zeroed pieces of one aligned array, each starting at a whole vector. Runs twice: first to count,
/// then to fill.
template <class T>
class Packer {
 public:
  Packer(std::size_t lanes, T* storage) : lanes_(lanes), storage_(storage) {}

  std::size_t padded(std::size_t count) const { return (count + lanes_ - 1) / lanes_ * lanes_; }
  std::size_t used() const { return used_; }

  /// rows x columns numbers read by value(row, column), rows padded
  template <class Value>
  const T* pack(std::size_t rows, std::size_t columns, const Value& value) {
    return pack_parts(rows, 1, columns,
                      [&](std::size_t r, std::size_t, std::size_t c) { return value(r, c); });
  }

  /// Rows of several parts (x and z; the gates r, z, n), each part padded: value(row, part, column).
  template <class Value>
  const T* pack_parts(std::size_t rows, std::size_t parts, std::size_t columns, const Value& value) {
    const std::size_t stride = padded(columns);
    T* const piece = storage_ ? storage_ + used_ : nullptr;
    used_ += rows * parts * stride;
    if (!piece) return nullptr;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t p = 0; p < parts; ++p)
        for (std::size_t c = 0; c < columns; ++c) piece[(r * parts + p) * stride + c] = value(r, p, c);
    return piece;
  }

  /// weight (parts·outputs, inputs), bias (parts·outputs) or null
  PackedLinear<T> linear(const T* weight, const T* bias, std::size_t inputs, std::size_t outputs,
                         std::size_t parts = 1) {
    PackedLinear<T> packed{nullptr, nullptr, inputs, parts * padded(outputs)};
    packed.weight = pack_parts(inputs, parts, outputs, [&](std::size_t i, std::size_t p, std::size_t o) {
      return weight[(p * outputs + o) * inputs + i];
    });
    if (bias)
      packed.bias = pack_parts(1, parts, outputs, [&](std::size_t, std::size_t p, std::size_t o) {
        return bias[p * outputs + o];
      });
    return packed;
  }

  const T* row(const T* values, std::size_t count) {
    return pack(1, count, [&](std::size_t, std::size_t c) { return values[c]; });
  }

 private:
  std::size_t lanes_;
  T* storage_;
  std::size_t used_ = 0;
};

}  // namespace mac::cpu
