#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/parallel_for.hpp"
#include "training/losses.hpp"
#include "training/normalise.hpp"

namespace mac {

namespace {

/// Loops over fewer numbers than this stay on one thread: waking another would take longer.
constexpr std::size_t worth_threads = 1 << 17;

template <class T>
class ClosureLoss final : public Loss<T> {
 public:
  ClosureLoss(const LossContext& context, LossWeights weights, SequenceEngine<T>& engine)
      : context_(context),
        weights_(component_weights(context, weights)),
        normalisers_(context.normalisation),
        relative_(weights == LossWeights::relative),
        sizes_(context),
        engine_(engine) {}

  double evaluate(const T* parameters, const Batch& batch, T* gradient) override {
    const SequenceDims dims{batch.count, batch.shape.closures};
    const std::size_t d = inputs(), rows = dims.time;
    prepare(dims, gradient != nullptr);
    const NormaliserView normaliser = normalisers_.input.view();

    const int threads = x_.size() > worth_threads ? context_.threads : 1;
    parallel_for(dims.batch, threads, [&](std::size_t b, std::size_t) {
      const double* resolved = batch.resolved.data() + b * batch.shape.states * d;
      const double* noise = batch.noise.empty() ? nullptr : batch.noise.data() + b * batch.shape.states * d;
      T* const x = x_.data() + b * rows * d;
      for (std::size_t row = 0; row < rows * d; row += d)
        for (std::size_t v = 0; v < d; ++v) {
          const double value = normaliser.to_network(v, resolved[row + v]);
          x[row + v] = static_cast<T>(noise ? value + noise[row + v] : value);
        }
    });
    engine_.forward(parameters, dims, x_.data(), y_.data(), nullptr, nullptr,
                    gradient ? tape_.get() : nullptr);

    parallel_for(dims.batch, threads, [&](std::size_t b, std::size_t) {
      sums_[b] = relative_ ? relative_errors(batch, b, dims) : squared_errors(batch, b, dims);
    });
    if (gradient)
      engine_.backward(parameters, dims, x_.data(), nullptr, d_y_.data(), *tape_, {.parameters = gradient});
    return std::accumulate(sums_.begin(), sums_.end(), 0.0);
  }

 private:
  /// y - target at the given row and component; nothing where nobody knows the target (a masked closure).
  double error(const Batch& batch, std::size_t row, std::size_t j) const {
    const double target = batch.closure[row + j];
    if (std::isnan(target)) return 0;
    return static_cast<double>(y_[row + j]) - normalisers_.output.to_network(j, target);
  }

  /// Numbers of sample b that only the memory sees; their gradient is zero.
  std::size_t skip_history(std::size_t b, SequenceDims dims) {
    const std::size_t c = weights_.size(), skipped = std::min(context_.history, dims.time - 1) * c;
    std::fill_n(d_y_.begin() + static_cast<std::ptrdiff_t>(b * dims.time * c), skipped, T{0});
    return skipped;
  }

  /// Sample b's part of the loss; leaves its gradient in d_y_.
  double squared_errors(const Batch& batch, std::size_t b, SequenceDims dims) {
    const std::size_t c = weights_.size(), size = dims.time * c, first = b * size + skip_history(b, dims);
    const double share = 1 / static_cast<double>(dims.batch * ((b + 1) * size - first));
    double sum = 0;
    for (std::size_t row = first; row < (b + 1) * size; row += c)
      for (std::size_t j = 0; j < c; ++j) {
        const double e = error(batch, row, j);
        sum += weights_[j] * e * e;
        d_y_[row + j] = static_cast<T>(2 * share * weights_[j] * e);
      }
    return share * sum;
  }

  double relative_errors(const Batch& batch, std::size_t b, SequenceDims dims) {
    const std::size_t c = weights_.size(), size = dims.time * c, first = b * size + skip_history(b, dims);
    const double rows = static_cast<double>(((b + 1) * size - first) / c),
                 parts = static_cast<double>(dims.batch * c);
    std::vector<double> squares(c);
    for (std::size_t row = first; row < (b + 1) * size; row += c)
      for (std::size_t j = 0; j < c; ++j) squares[j] += error(batch, row, j) * error(batch, row, j);
    const std::vector<double> sizes = sizes_.of(batch, b);
    double sum = 0;
    for (std::size_t j = 0; j < c; ++j) {
      const double norm = std::sqrt(squares[j] / rows + smallest_error * smallest_error);
      const double relative = norm / sizes[context_.system.closure_targets()[j]];
      sum += relative / parts;
      const double slope = relative / (parts * rows * norm * norm);
      for (std::size_t row = first; row < (b + 1) * size; row += c)
        d_y_[row + j] = static_cast<T>(slope * error(batch, row, j));
    }
    return sum;
  }

  std::size_t inputs() const { return normalisers_.input.size(); }

  void prepare(SequenceDims dims, bool with_gradient) {
    x_.resize(dims.batch * dims.time * inputs());
    y_.resize(dims.batch * dims.time * weights_.size());
    d_y_.resize(y_.size());
    sums_.resize(dims.batch);
    if (with_gradient && (!tape_ || dims.batch > largest_.batch || dims.time > largest_.time)) {
      tape_ = engine_.make_tape(dims);
      largest_ = dims;
    }
  }

  LossContext context_;
  std::vector<double> weights_;
  Normalisers normalisers_;
  bool relative_;
  VariableSizes sizes_;
  SequenceEngine<T>& engine_;
  std::unique_ptr<Tape> tape_;
  SequenceDims largest_;
  std::vector<T> x_, y_, d_y_;
  std::vector<double> sums_;
};

}  // namespace

VariableSizes::VariableSizes(const LossContext& context)
    : normaliser_(Normalisers(context.normalisation).input),
      groups_(symmetry_groups(context.system, context.system.resolved_size())) {}

std::vector<double> VariableSizes::of(const Batch& batch, std::size_t b) const {
  const std::size_t d = normaliser_.size(), states = batch.shape.states;
  std::vector<double> squares(d), members(d), sizes(d);
  for (std::size_t i = b * states * d; i < (b + 1) * states * d; i += d)
    for (std::size_t v = 0; v < d; ++v) {
      const double value = batch.resolved[i + v] * normaliser_.factor(v);
      squares[groups_[v]] += value * value;
    }
  for (std::size_t v = 0; v < d; ++v) members[groups_[v]] += static_cast<double>(states);
  for (std::size_t v = 0; v < d; ++v)
    sizes[v] = std::sqrt(squares[groups_[v]] / members[groups_[v]] + smallest_size * smallest_size);
  return sizes;
}

std::vector<double> component_weights(const LossContext& context, LossWeights kind) {
  const auto targets = context.system.closure_targets();
  std::vector<double> weights(targets.size(), 1.0);
  if (kind != LossWeights::effect) return weights;
  for (std::size_t j = 0; j < targets.size(); ++j) {
    const double rate = context.normalisation.output_scale[j] / context.normalisation.input_scale[targets[j]];
    weights[j] = rate * rate;
  }
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  for (double& weight : weights) weight /= mean;
  return weights;
}

template <class T>
std::unique_ptr<Loss<T>> make_closure_loss(const LossContext& context, LossWeights weights,
                                           SequenceEngine<T>& engine) {
  return std::make_unique<ClosureLoss<T>>(context, weights, engine);
}

template std::unique_ptr<Loss<float>> make_closure_loss(const LossContext&, LossWeights,
                                                        SequenceEngine<float>&);
template std::unique_ptr<Loss<double>> make_closure_loss(const LossContext&, LossWeights,
                                                         SequenceEngine<double>&);

template <class T>
std::unique_ptr<Loss<T>> make_loss(const StagePlan& stage, const LossContext& context,
                                   SequenceEngine<T>& engine) {
  switch (stage.loss) {
    case LossKind::closure:
      return make_closure_loss(context, stage.loss_weights, engine);
    case LossKind::step:
      return make_rollout_loss(context, 1, RolloutForm::sequence, stage.loss_weights, engine);
    case LossKind::crps:
    case LossKind::energy:
      return make_score_loss(stage, context, engine);
    case LossKind::rollout:
      break;
  }
  return make_rollout_loss(context, stage.rollout_steps, stage.rollout_form, stage.loss_weights, engine);
}

template std::unique_ptr<Loss<float>> make_loss(const StagePlan&, const LossContext&, SequenceEngine<float>&);
template std::unique_ptr<Loss<double>> make_loss(const StagePlan&, const LossContext&,
                                                 SequenceEngine<double>&);

}  // namespace mac
