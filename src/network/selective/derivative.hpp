// Convolution and scan of a selective layer as operations of a derivative program.
#pragma once

#include "network/derivative/kernels.hpp"
#include "network/derivative/program.hpp"
#include "network/selective/graph.hpp"

namespace mac::selective {

using derivative::Operation;
using derivative::Tile;
using derivative::Value;

/// c = bias + Σ_k weight_k window_k
class Convolution final : public Operation {
 public:
  Convolution(Value c, Value window, const double* weight, const double* bias)
      : c_(c), window_(window), weight_(weight), bias_(bias) {}

  void forward(Tile<double> v) const override { convolve(v, bias_); }
  void tangent(Tile<const double>, Tile<double> d) const override { convolve(d, nullptr); }
  void adjoint(Tile<const double>, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s)
      for (std::size_t k = 0; k < taps; ++k)
        for (std::size_t i = 0; i < c_.size; ++i)
          d.column(s)[window_.at + k * c_.size + i] += weight_[i * taps + k] * d.column(s)[c_.at + i];
  }

 private:
  static constexpr std::size_t taps = Sizes::d_conv;

  void convolve(Tile<double> v, const double* bias) const {
    for (std::size_t s = 0; s < v.columns; ++s)
      for (std::size_t i = 0; i < c_.size; ++i) {
        double sum = bias ? bias[i] : 0;
        for (std::size_t k = 0; k < taps; ++k)
          sum += weight_[i * taps + k] * v.column(s)[window_.at + k * c_.size + i];
        v.column(s)[c_.at + i] = sum;
      }
  }

  Value c_, window_;
  const double *weight_, *bias_;
};

/// window (d_conv, d_inner), oldest first -> (d_inner)
inline Value convolution(derivative::Program& program, const Sizes& sizes, const Value& window,
                         const std::string& name) {
  const Value c = program.room(sizes.d_inner);
  program.add(std::make_unique<Convolution>(c, window, program.weight(name + "conv1d.weight").data(),
                                            program.weight(name + "conv1d.bias").data()));
  return c;
}

struct ScanValues {
  Value s, p, factors;           // results; the factors are kept
  Value before, delta, v, B, C;  // arguments
};

/// s = F s_before + Δ B v,  p = C·s + D v. F is the exponential of Δ times a matrix whose entries stand where F's do. A
/// kind's Transition has, for the kUnit states that it mixes,
///   factors(kernels, f, delta, rate, count)  those of a unit's channels: numbers of its states `count` apart
///   apply(out, f, z), transposed(out, f, z)  a matrix of such entries, and its transpose, times z
///   rate(A_log, sizes, c, n)                 for the vector functions
///   exponent(A_log, sizes, c, n)             an entry of the matrix in the exponent
template <class Transition>
class Scan final : public Operation {
 public:
  Scan(const ScanValues& at, const Sizes& sizes, const double* A_log, const double* D)
      : at_(at),
        inner_(sizes.d_inner),
        states_(sizes.d_state),
        A_(inner_ * states_),
        rate_(A_.size()),
        D_(D) {
    for (std::size_t n = 0; n < states_; ++n)
      for (std::size_t c = 0; c < inner_; ++c) {
        A_[n * inner_ + c] = Transition::exponent(A_log, sizes, c, n);
        rate_[n * inner_ + c] = Transition::rate(A_log, sizes, c, n);
      }
  }

  void forward(Tile<double> v) const override {
    const derivative::Kernels k = derivative::kernels();
    for (std::size_t column = 0; column < v.columns; ++column) {
      const View<double> a(v.column(column), at_);
      for (std::size_t c = 0; c < inner_; ++c) a.p[c] = D_[c] * a.v[c];
      for (std::size_t n = 0; n < states_; n += U) {
        const std::size_t first = n * inner_;
        Transition::factors(k, a.factors + first, a.delta, rate_.data() + first, inner_);
        for (std::size_t c = 0; c < inner_; ++c) {
          double kept[U];
          Transition::apply(kept, unit(a.factors, n, c).numbers, unit(a.before, n, c).numbers);
          for (std::size_t j = 0; j < U; ++j) {
            double& s = a.s[first + j * inner_ + c];
            s = kept[j] + a.delta[c] * a.B[n + j] * a.v[c];
            a.p[c] += a.C[n + j] * s;
          }
        }
      }
    }
  }

  void tangent(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t column = 0; column < d.columns; ++column) {
      const View<const double> a(v.column(column), at_);
      const View<double> t(d.column(column), at_);
      for (std::size_t c = 0; c < inner_; ++c) t.p[c] = D_[c] * t.v[c];
      for (std::size_t n = 0; n < states_; n += U)
        for (std::size_t c = 0; c < inner_; ++c) {
          double of_before[U], of_step[U];
          Transition::apply(of_before, unit(a.factors, n, c).numbers, unit(t.before, n, c).numbers);
          by_step(of_step, a, n, c);
          for (std::size_t j = 0; j < U; ++j) {
            const std::size_t i = (n + j) * inner_ + c;
            t.s[i] = of_before[j] + of_step[j] * t.delta[c] + t.delta[c] * a.B[n + j] * a.v[c] +
                     a.delta[c] * (t.B[n + j] * a.v[c] + a.B[n + j] * t.v[c]);
            t.p[c] += t.C[n + j] * a.s[i] + a.C[n + j] * t.s[i];
          }
        }
    }
  }

  void adjoint(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t column = 0; column < d.columns; ++column) {
      const View<const double> a(v.column(column), at_);
      const View<double> g(d.column(column), at_);
      for (std::size_t c = 0; c < inner_; ++c) g.v[c] += D_[c] * g.p[c];
      for (std::size_t n = 0; n < states_; n += U) {
        double of_B[U] = {}, of_C[U] = {};
        for (std::size_t c = 0; c < inner_; ++c) {
          double of_s[U], of_before[U], of_step[U];
          by_step(of_step, a, n, c);
          for (std::size_t j = 0; j < U; ++j) {
            const std::size_t i = (n + j) * inner_ + c;
            of_s[j] = g.s[i] + a.C[n + j] * g.p[c];
            of_C[j] += a.s[i] * g.p[c];
            of_B[j] += a.delta[c] * a.v[c] * of_s[j];
            g.delta[c] += (of_step[j] + a.B[n + j] * a.v[c]) * of_s[j];
            g.v[c] += a.delta[c] * a.B[n + j] * of_s[j];
          }
          Transition::transposed(of_before, unit(a.factors, n, c).numbers, of_s);
          for (std::size_t j = 0; j < U; ++j) g.before[(n + j) * inner_ + c] += of_before[j];
        }
        for (std::size_t j = 0; j < U; ++j) g.B[n + j] += of_B[j], g.C[n + j] += of_C[j];
      }
    }
  }

 private:
  static constexpr std::size_t U = Transition::kUnit;

  /// The values of a column by their names.
  template <class T>
  struct View {
    T *s, *p, *factors, *before, *delta, *v, *B, *C;
    View(T* first, const ScanValues& at)
        : s(first + at.s.at),
          p(first + at.p.at),
          factors(first + at.factors.at),
          before(first + at.before.at),
          delta(first + at.delta.at),
          v(first + at.v.at),
          B(first + at.B.at),
          C(first + at.C.at) {}
  };

  struct Unit {
    double numbers[U];
  };
  /// Of an array (d_state, d_inner), those of the unit that begins with state n.
  Unit unit(const double* from, std::size_t n, std::size_t c) const {
    Unit taken;
    for (std::size_t j = 0; j < U; ++j) taken.numbers[j] = from[(n + j) * inner_ + c];
    return taken;
  }
  /// The derivative of F s_before by Δ.
  void by_step(double (&out)[U], const View<const double>& a, std::size_t n, std::size_t c) const {
    double kept[U];
    Transition::apply(kept, unit(a.factors, n, c).numbers, unit(a.before, n, c).numbers);
    Transition::apply(out, unit(A_.data(), n, c).numbers, kept);
  }

  ScanValues at_;
  std::size_t inner_, states_;
  std::vector<double> A_, rate_;  // (d_state, d_inner)
  const double* D_;
};

template <class Transition>
Scanned<Value> add_scan(derivative::Program& program, const Sizes& sizes, const Value& before,
                        const Value& delta, const Value& v, const Value& B, const Value& C,
                        const std::string& name) {
  const std::size_t size = sizes.d_state * sizes.d_inner;
  const ScanValues at{
      program.room(size), program.room(sizes.d_inner), program.room(size), before, delta, v, B, C};
  program.add(std::make_unique<Scan<Transition>>(at, sizes, program.weight(name + "A_log").data(),
                                                 program.weight(name + "D").data()));
  return {at.s, at.p};
}

}  // namespace mac::selective
