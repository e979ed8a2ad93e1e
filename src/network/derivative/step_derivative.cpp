#include "network/derivative/step_derivative.hpp"

#include <algorithm>

#include "network/kinds/layer.hpp"
#include "network/step_graph.hpp"

namespace mac::derivative {

StepDerivative::StepDerivative(const NetworkShape& shape, std::span<const double> parameters)
    : shape_(shape), state_size_(shape.state_size()), program_(shape, parameters) {
  x_ = program_.room(shape.d_in);
  state_ = program_.room(state_size_);
  const std::size_t blocks = shape.members * shape.n_blocks;
  next_ = program_.split(state_, std::vector<std::size_t>(blocks, state_size_ / blocks));
  y_ = network_step(program_, shape, x_, next_, [&](const Value& u, const std::string& prefix, Value& state) {
    return layer_of(shape.kind).step(program_, shape, u, prefix, state);
  });
  if (state_size_ == 0) next_.clear();
}

void StepDerivative::evaluate(std::size_t first, Point at, Tile<double> v) const {
  for (std::size_t s = 0; s < v.columns; ++s) {
    std::copy_n(at.x + (first + s) * x_.size, x_.size, v.column(s) + x_.at);
    std::copy_n(at.memory + (first + s) * state_size_, state_size_, v.column(s) + state_.at);
  }
  program_.forward(v);
}

namespace {

Tile<const double> read_only(Tile<double> v) { return {v.first, v.stride, v.columns}; }

}  // namespace

void StepDerivative::tangent(std::size_t columns, Point at, const double* dx, double* dmemory, double* dy,
                             const Work& work) const {
  for (std::size_t first = 0; first < columns; first += kTile) {
    const std::size_t count = std::min(kTile, columns - first);
    const Tile<double> v = work.values(count), d = work.derivatives(count);
    evaluate(first, at, v);
    for (std::size_t s = 0; s < count; ++s) {
      std::copy_n(dx + (first + s) * x_.size, x_.size, d.column(s) + x_.at);
      std::copy_n(dmemory + (first + s) * state_size_, state_size_, d.column(s) + state_.at);
    }
    program_.tangent(read_only(v), d);
    for (std::size_t s = 0; s < count; ++s) {
      std::copy_n(d.column(s) + y_.at, y_.size, dy + (first + s) * y_.size);
      double* to = dmemory + (first + s) * state_size_;
      for (const Value& block : next_) to = std::copy_n(d.column(s) + block.at, block.size, to);
    }
  }
}

void StepDerivative::adjoint(std::size_t columns, Point at, const double* gy, double* gmemory, double* gx,
                             const Work& work) const {
  for (std::size_t first = 0; first < columns; first += kTile) {
    const std::size_t count = std::min(kTile, columns - first);
    const Tile<double> v = work.values(count), g = work.derivatives(count);
    evaluate(first, at, v);
    std::fill_n(g.first, count * g.stride, 0.0);
    for (std::size_t s = 0; s < count; ++s) {
      for (std::size_t i = 0; i < y_.size; ++i) g.column(s)[y_.at + i] += gy[(first + s) * y_.size + i];
      const double* from = gmemory + (first + s) * state_size_;
      for (const Value& block :
           next_)  // a block's next state may be one of the values that others are made of
        for (std::size_t i = 0; i < block.size; ++i) g.column(s)[block.at + i] += *from++;
    }
    program_.adjoint(read_only(v), g);
    for (std::size_t s = 0; s < count; ++s) {
      std::copy_n(g.column(s) + x_.at, x_.size, gx + (first + s) * x_.size);
      std::copy_n(g.column(s) + state_.at, state_size_, gmemory + (first + s) * state_size_);
    }
  }
}

void StepDerivative::jacobian(std::size_t columns, Point at, double* jacobian, const Work& work) const {
  for (std::size_t j = 0; j < columns; ++j) {
    const Tile<double> v = work.values(1);
    evaluate(j, at, v);
    double* const of = jacobian + j * y_.size * x_.size;
    for (std::size_t first = 0; first < x_.size; first += kTile) {
      const Tile<double> d = work.derivatives(std::min(kTile, x_.size - first));
      for (std::size_t s = 0; s < d.columns; ++s) {
        std::fill_n(d.column(s) + x_.at, x_.size, 0.0);
        std::fill_n(d.column(s) + state_.at, state_size_, 0.0);
        d.column(s)[x_.at + first + s] = 1;
      }
      program_.tangent({v.first, 0, d.columns}, d);  // one point, several directions
      for (std::size_t s = 0; s < d.columns; ++s)
        for (std::size_t i = 0; i < y_.size; ++i) of[i * x_.size + first + s] = d.column(s)[y_.at + i];
    }
  }
}

}  // namespace mac::derivative
