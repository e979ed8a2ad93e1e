#include "network/kinds/mamba/derivative.hpp"

#include <cmath>

#include "network/derivative/kernels.hpp"
#include "network/kinds/mamba/decay_rate.hpp"

namespace mac::mamba {

namespace {

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

struct ScanValues {
  Value s, p, decay;             // results; the decay is kept
  Value before, delta, v, B, C;  // arguments
};

/// With e = exp(Δ A):  s = e s_before + Δ B v,  p = C·s + D v
class Scan final : public Operation {
 public:
  Scan(const ScanValues& at, const double* A_log, const double* D)
      : at_(at), inner_(at.v.size), states_(at.B.size), A_(inner_ * states_), rate_(A_.size()), D_(D) {
    for (std::size_t n = 0; n < states_; ++n)
      for (std::size_t c = 0; c < inner_; ++c) {
        A_[n * inner_ + c] = -std::exp(A_log[c * states_ + n]);
        rate_[n * inner_ + c] = decay_rate(A_log[c * states_ + n]);
      }
  }

  void forward(Tile<double> v) const override {
    const derivative::Kernels k = derivative::kernels();
    for (std::size_t column = 0; column < v.columns; ++column) {
      const View<double> a(v.column(column), at_);
      for (std::size_t c = 0; c < inner_; ++c) a.p[c] = D_[c] * a.v[c];
      for (std::size_t n = 0; n < states_; ++n) {
        double *const e = a.decay + n * inner_, *const s = a.s + n * inner_;
        const double* const before = a.before + n * inner_;
        k.decay(e, a.delta, rate_.data() + n * inner_, inner_);
        for (std::size_t c = 0; c < inner_; ++c) {
          s[c] = e[c] * before[c] + a.delta[c] * a.B[n] * a.v[c];
          a.p[c] += a.C[n] * s[c];
        }
      }
    }
  }

  void tangent(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t column = 0; column < d.columns; ++column) {
      const View<const double> a(v.column(column), at_);
      const View<double> t(d.column(column), at_);
      for (std::size_t c = 0; c < inner_; ++c) t.p[c] = D_[c] * t.v[c];
      for (std::size_t n = 0; n < states_; ++n)
        for (std::size_t c = 0, i = n * inner_; c < inner_; ++c, ++i) {
          t.s[i] = a.decay[i] * (t.before[i] + A_[i] * a.before[i] * t.delta[c]) +
                   t.delta[c] * a.B[n] * a.v[c] + a.delta[c] * (t.B[n] * a.v[c] + a.B[n] * t.v[c]);
          t.p[c] += t.C[n] * a.s[i] + a.C[n] * t.s[i];
        }
    }
  }

  void adjoint(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t column = 0; column < d.columns; ++column) {
      const View<const double> a(v.column(column), at_);
      const View<double> g(d.column(column), at_);
      for (std::size_t c = 0; c < inner_; ++c) g.v[c] += D_[c] * g.p[c];
      for (std::size_t n = 0; n < states_; ++n) {
        double of_B = 0, of_C = 0;
        for (std::size_t c = 0, i = n * inner_; c < inner_; ++c, ++i) {
          const double of_s = g.s[i] + a.C[n] * g.p[c];
          of_C += a.s[i] * g.p[c];
          of_B += a.delta[c] * a.v[c] * of_s;
          g.before[i] += a.decay[i] * of_s;
          g.delta[c] += (a.decay[i] * A_[i] * a.before[i] + a.B[n] * a.v[c]) * of_s;
          g.v[c] += a.delta[c] * a.B[n] * of_s;
        }
        g.B[n] += of_B;
        g.C[n] += of_C;
      }
    }
  }

 private:
  /// The values of a column by their names.
  template <class T>
  struct View {
    T *s, *p, *decay, *before, *delta, *v, *B, *C;
    View(T* first, const ScanValues& at)
        : s(first + at.s.at),
          p(first + at.p.at),
          decay(first + at.decay.at),
          before(first + at.before.at),
          delta(first + at.delta.at),
          v(first + at.v.at),
          B(first + at.B.at),
          C(first + at.C.at) {}
  };

  ScanValues at_;
  std::size_t inner_, states_;
  std::vector<double> A_, rate_;  // (d_state, d_inner)
  const double* D_;
};

}  // namespace

Value convolution(derivative::Program& program, const Sizes& sizes, const Value& window,
                  const std::string& name) {
  const Value c = program.room(sizes.d_inner);
  program.add(std::make_unique<Convolution>(c, window, program.weight(name + "conv1d.weight").data(),
                                            program.weight(name + "conv1d.bias").data()));
  return c;
}

Scanned<Value> scan(derivative::Program& program, const Sizes& sizes, const Value& before, const Value& delta,
                    const Value& v, const Value& B, const Value& C, const std::string& name) {
  const std::size_t size = sizes.d_state * sizes.d_inner;
  const ScanValues at{
      program.room(size), program.room(sizes.d_inner), program.room(size), before, delta, v, B, C};
  program.add(
      std::make_unique<Scan>(at, program.weight(name + "A_log").data(), program.weight(name + "D").data()));
  return {at.s, at.p};
}

}  // namespace mac::mamba
