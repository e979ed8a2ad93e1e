// The likelihood of the data's closures under a network that predicts means and deviations, with red noise for what is
// left. Along a sequence of the data, with the normalised closure C, mean m and deviation d = softplus(s),
//
//   r_n = (C_n - m_n) / d_n,   u_0 = r_0,   u_n = r_n - phi r_{n-1},   v_0 = 1,   v_n = 1 - phi^2,   phi = exp(-dt / noise_time)
//
//   loss = mean_{n,j} ( ln d_n + ln(2 pi v_n) / 2 + u_n^2 / (2 v_n) )
//
// the mean negative logarithm of the density of every component given those before it. The network reads the data, so
// that nothing is differentiated through the coupled model.
#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <numbers>

#include "network/deviation_engine.hpp"
#include "parallel/parallel_for.hpp"
#include "training/losses.hpp"

namespace mac {

namespace {

template <class T>
class LikelihoodLoss final : public Loss<T> {
 public:
  LikelihoodLoss(const LossContext& context, SequenceEngine<T>& engine)
      : context_(context),
        normalisers_(context.normalisation),
        engine_(dynamic_cast<DeviationEngine<T>&>(engine).core()),
        d_(context.system.resolved_size()),
        c_(context.system.closure_size()),
        phi_(context.noise.phi(context.dt)) {}

  BatchForm form_of(std::size_t samples, SampleShape) const override { return {samples, samples, false, 1}; }

  double evaluate(const T* parameters, const Batch& batch, T* gradient) override {
    const SequenceDims dims{batch.count, batch.shape.closures};
    prepare(dims, gradient != nullptr);
    parallel_for(batch.count, context_.threads,
                 [&](std::size_t b, std::size_t) { take(batch, b, dims.time); });
    engine_.forward(parameters, dims, x_.data(), z_.data(), nullptr, nullptr,
                    gradient ? tape_.get() : nullptr);
    parallel_for(batch.count, context_.threads,
                 [&](std::size_t b, std::size_t) { sums_[b] = surprise(batch, b, dims.time); });
    if (gradient)
      engine_.backward(parameters, dims, x_.data(), nullptr, d_z_.data(), *tape_, {.parameters = gradient});
    return batch.sum(sums_);
  }

 private:
  void prepare(SequenceDims dims, bool with_gradient) {
    const std::size_t rows = dims.batch * dims.time;
    x_.resize(rows * d_), z_.resize(rows * 2 * c_), d_z_.resize(z_.size()), sums_.resize(dims.batch);
    if (with_gradient && (!tape_ || dims.batch > largest_.batch || dims.time > largest_.time)) {
      tape_ = engine_.make_tape(dims);
      largest_ = dims;
    }
  }

  void take(const Batch& batch, std::size_t b, std::size_t times) {
    const NormaliserView normaliser = normalisers_.input.view();
    const std::size_t first = b * batch.shape.states * d_;
    for (std::size_t k = 0; k < times * d_; ++k) {
      const double value = normaliser.to_network(k % d_, batch.resolved[first + k]);
      x_[b * times * d_ + k] = static_cast<T>(batch.noise.empty() ? value : value + batch.noise[first + k]);
    }
  }

  /// Of one component at one time.
  struct Residual {
    std::size_t place;        // of its mean in d_z; c_ further that of its s
    double deviation, grows;  // softplus(s) and its slope
    double r;
  };
  /// From d loss / d r: dr/dm = -1 / deviation, dr/ds = -r grows / deviation.
  void add_slope(const Residual& of, double slope, T* d_z) const {
    d_z[of.place] -= static_cast<T>(slope / of.deviation);
    d_z[of.place + c_] -= static_cast<T>(slope * of.r * of.grows / of.deviation);
  }

  /// Sample b's part of the loss; leaves its gradient in d_z_.
  double surprise(const Batch& batch, std::size_t b, std::size_t times) {
    const std::size_t history = std::min(context_.history, times - 1), width = 2 * c_;
    const double share = 1 / static_cast<double>(batch.whole() * (times - history) * c_);
    T* const d_z = d_z_.data() + b * times * width;
    std::fill_n(d_z, times * width, T{0});
    double sum = 0;
    for (std::size_t j = 0; j < c_; ++j) {
      // Of the time before; while nobody knows it, at the start and after a masked closure, phi is 0.
      Residual before{j, 1, 0, 0};
      bool known = false;
      for (std::size_t n = history; n < times; ++n) {
        const double closure = batch.closure[(b * times + n) * c_ + j];
        if (std::isnan(closure)) {
          known = false;
          continue;
        }
        const T* const z = z_.data() + (b * times + n) * width;
        const double s = static_cast<double>(z[c_ + j]), deviation = reference::softplus(s);
        const Residual now{
            n * width + j, deviation, reference::sigmoid(s),
            (normalisers_.output.to_network(j, closure) - static_cast<double>(z[j])) / deviation};
        const double phi = known ? phi_ : 0, u = now.r - phi * before.r, v = 1 - phi * phi;
        sum += std::log(deviation) + std::log(2 * std::numbers::pi * v) / 2 + u * u / (2 * v);
        d_z[now.place + c_] += static_cast<T>(share * now.grows / deviation);
        add_slope(now, share * u / v, d_z);
        add_slope(before, -share * phi * u / v, d_z);
        before = now, known = true;
      }
    }
    return share * sum;
  }

  LossContext context_;
  Normalisers normalisers_;
  SequenceEngine<T>& engine_;
  std::size_t d_, c_;
  double phi_;
  std::unique_ptr<Tape> tape_;
  SequenceDims largest_;
  std::vector<T> x_, z_, d_z_;  // (batch, time, d), (batch, time, 2 c)
  std::vector<double> sums_;
};

}  // namespace

template <class T>
std::unique_ptr<Loss<T>> make_likelihood_loss(const LossContext& context, SequenceEngine<T>& engine) {
  return std::make_unique<LikelihoodLoss<T>>(context, engine);
}

template std::unique_ptr<Loss<float>> make_likelihood_loss(const LossContext&, SequenceEngine<float>&);
template std::unique_ptr<Loss<double>> make_likelihood_loss(const LossContext&, SequenceEngine<double>&);

}  // namespace mac
