// A network in physical units for a batch of columns: normalise, one step of the network, back to physical
// units. Rollouts, validation and the runtime predict with it.
//
//   closure = to_physical(network(to_network(y), memory))
//
// NetworkTrajectories is the same for trajectories of a system, of which each has as many columns as its input map has
// sites.
#pragma once

#include <cmath>
#include <mac/network.hpp>
#include <vector>

#include "coupling/fourier_frame.hpp"
#include "coupling/input_map.hpp"
#include "network/cpu/aligned.hpp"
#include "network/normaliser.hpp"

namespace mac {

/// A caller's array of any layout: component i of column j is data[i*component + j*column].
template <class T>
struct Field {
  T* data;
  std::ptrdiff_t component, column;

  T& at(std::size_t i, std::size_t j) const {
    return data[static_cast<std::ptrdiff_t>(i) * component + static_cast<std::ptrdiff_t>(j) * column];
  }
};

/// Row-major: (columns, components).
template <class T>
Field<T> rows(T* data, std::size_t components) {
  return {data, 1, static_cast<std::ptrdiff_t>(components)};
}

/// T is the network's scalar. Engine and normalisers outlive it; never allocates after it was made.
template <class T>
class NetworkColumns {
 public:
  NetworkColumns(const StepEngine<T>& engine, const Normalisers& normalisers, std::size_t columns)
      : engine_(engine),
        normalisers_(normalisers),
        columns_(columns),
        x_(columns * engine.shape().d_in),
        c_(columns * engine.shape().d_out),
        scratch_(cpu::aligned_array<T>(engine.scratch_size())) {}

  std::size_t columns() const { return columns_; }
  std::size_t inputs() const { return normalisers_.input.size(); }
  std::size_t outputs() const { return normalisers_.output.size(); }

  /// The next step's input from y (columns, inputs): false where a number is not finite once normalised.
  template <class U>
  bool take(const Field<const U>& y) {
    const NormaliserView normaliser = normalisers_.input.view();
    const std::size_t inputs = this->inputs(), width = engine_.shape().d_in;
    bool finite = true;
    for (std::size_t j = 0; j < columns_; ++j)
      for (std::size_t i = 0; i < inputs; ++i) {
        const T x = static_cast<T>(normaliser.to_network(i, static_cast<double>(y.at(i, j))));
        finite = finite && std::isfinite(x);
        x_[j * width + i] = x;
      }
    return finite;
  }
  /// What the network reads beside y, (columns, d_in - inputs): zeros unless this was called.
  void set_noise(const std::vector<double>& noise) {
    const std::size_t width = engine_.shape().d_in, channels = width - inputs();
    for (std::size_t k = 0; k < noise.size(); ++k)
      x_[k / channels * width + inputs() + k % channels] = static_cast<T>(noise[k]);
  }
  /// The input that take() left, (columns, d_in), normalised.
  const std::vector<T>& input() const { return x_; }

  /// memory (columns, state_size) goes one step on.
  void step(T* memory) { engine_.step(columns_, x_.data(), c_.data(), memory, scratch_.get()); }

  /// put(i, j, closure) for component i of column j, in physical units.
  template <class Put>
  void give(const Put& put) const {
    const NormaliserView normaliser = normalisers_.output.view();
    const std::size_t outputs = this->outputs();
    for (std::size_t j = 0; j < columns_; ++j)
      for (std::size_t i = 0; i < outputs; ++i)
        put(i, j, normaliser.to_physical(i, static_cast<double>(c_[j * outputs + i])));
  }

  /// All of it: y (columns, inputs) -> closure (columns, outputs).
  void predict(const double* y, double* closure, T* memory) {
    take(rows(y, inputs()));
    step(memory);
    give([&](std::size_t i, std::size_t j, double value) { closure[j * outputs() + i] = value; });
  }

 private:
  const StepEngine<T>& engine_;
  const Normalisers& normalisers_;
  std::size_t columns_;
  std::vector<T> x_, c_;  // (columns, d_in), (columns, outputs), normalised
  cpu::AlignedArray<T> scratch_;
};

/// `map` outlives it as well. A trajectory's memory is that of its sites, one after the other.
template <class T>
class NetworkTrajectories {
 public:
  NetworkTrajectories(const StepEngine<T>& engine, const Normalisers& normalisers, const InputMap& map,
                      std::size_t trajectories)
      : map_(map),
        trajectories_(trajectories),
        closures_(map.sites() * map.outputs()),
        columns_(engine, normalisers, trajectories * map.sites()),
        frames_(map.frame_modes(), trajectories),
        rows_(map.is_plain() ? 0 : columns_.columns() * columns_.inputs()) {}

  std::size_t trajectories() const { return trajectories_; }
  std::size_t columns() const { return columns_.columns(); }
  void set_noise(const std::vector<double>& noise) { columns_.set_noise(noise); }

  /// Angles of the trajectories' frames, which belong to the memory. A first prediction sets them; empty: there are none.
  std::vector<double> angles() const {
    std::vector<double> angles;
    for (std::size_t i = 0; frames_.exist() && i < trajectories_; ++i) angles.push_back(frames_.angle(i));
    return angles;
  }
  void set_angle(std::size_t trajectory, double angle) { frames_.set(trajectory, angle); }

  /// y (trajectories, d), e (trajectories, given) -> closure (trajectories, c); memory (columns, state_size)
  /// goes one step on.
  void predict(const double* y, std::size_t d, const double* e, double* closure, T* memory) {
    if (map_.is_plain()) return columns_.predict(y, closure, memory);
    const std::size_t inputs = columns_.inputs(), sites = map_.sites();
    for (std::size_t i = 0; i < trajectories_; ++i)
      map_.read(y + i * d, e ? e + i * map_.given_size() : nullptr,
                [&](std::size_t site, std::size_t f, double value) {
                  rows_[(i * sites + site) * inputs + f] = value;
                });
    for (std::size_t i = 0; frames_.exist() && i < trajectories_; ++i) {
      frames_.choose(i, y + i * d);
      frames_.keep(i);
      frames_.enter(i, rows_.data() + i * inputs);
    }
    columns_.take(rows(static_cast<const double*>(rows_.data()), inputs));
    columns_.step(memory);
    columns_.give([&](std::size_t j, std::size_t column, double value) {
      closure[column / sites * closures_ + map_.closure(column % sites, j)] = value;
    });
    for (std::size_t i = 0; frames_.exist() && i < trajectories_; ++i)
      frames_.leave(i, closure + i * closures_);
  }

 private:
  const InputMap& map_;
  std::size_t trajectories_, closures_;
  NetworkColumns<T> columns_;
  ColumnFrames frames_;
  std::vector<double> rows_;  // (columns, inputs)
};

}  // namespace mac
