// The coupled model with a network that reads noise, run M times from every starting state of a window, K steps on:
//
//   loss = mean_{s,t} w_s S(z^1(t,s), .. z^M(t,s); X(t+s)) / scale
//
// w_s is 1, or with lead_weights = "inverse" in proportion to 1/s, of mean 1.
// S is the almost fair CRPS of each variable, averaged, or the energy score of all (data/proper_scores.hpp). A member
// keeps its noise e(t) over the window: chains from different starts of it read the same, so that memory, noise and state
// belong together as they do in a rollout. Differentiated through the network and the RK4 steps, with the noise as it is.
#include <algorithm>
#include <mac/error.hpp>
#include <optional>

#include "coupling/coupled_columns.hpp"
#include "data/proper_scores.hpp"
#include "parallel/parallel_for.hpp"
#include "training/losses.hpp"
#include "training/rollout_network.hpp"

namespace mac {

namespace {

template <class T>
class ScoreLoss final : public Loss<T> {
 public:
  ScoreLoss(const StagePlan& stage, const LossContext& context, SequenceEngine<T>& engine)
      : context_(context),
        kind_(stage.loss),
        steps_(stage.rollout_steps),
        form_(stage.rollout_form),
        members_(stage.members),
        lead_weights_(weights_of(stage)),
        normalisers_(context.normalisation),
        engine_(engine),
        d_(context.system.resolved_size()),
        c_(context.system.closure_size()),
        noise_(context.noise.channels) {
    if (d_ + noise_ != engine.shape().d_in)
      throw Error("the network reads {} numbers, of which {} would be noise and {} resolved variables",
                  engine.shape().d_in, noise_, d_);
  }

  BatchForm form_of(std::size_t samples, SampleShape shape) const override {
    const std::size_t per_window =
        (shape.states - steps_) * members_ * std::max(d_, engine_.shape().state_size());
    return {samples, largest_divisor(samples, group_numbers / (per_window * steps_)),
            form_ == RolloutForm::autoregressive, members_};
  }

  double evaluate(const T* parameters, const Batch& batch, T* gradient) override {
    if (!batch.systems.empty())
      throw UsageError(
          "the losses crps and energy are of one set of the system's parameters, and the data vary them");
    const std::size_t starts = batch.shape.states - steps_;
    const BatchForm form = form_of(batch.whole(), batch.shape);
    const std::size_t group = batch.count / (form.samples / form.at_once);
    scores_.resize(batch.count * steps_);
    for (std::size_t first = 0; first < batch.count; first += group) {
      prepare(group, starts);
      draw(batch, first);
      forward(parameters, batch, first);
      for (std::size_t s = 0; s < steps_; ++s) score(batch, first, s, nullptr);
      if (gradient) backward(parameters, batch, first, gradient);
    }
    return sum(batch, form);
  }

 private:
  /// w_s of the steps 1..K.
  static std::vector<double> weights_of(const StagePlan& stage) {
    std::vector<double> weights(stage.rollout_steps, 1.0);
    if (stage.lead_weights == LeadWeights::equal) return weights;
    double sum = 0;
    for (std::size_t s = 0; s < weights.size(); ++s) sum += weights[s] = 1 / static_cast<double>(s + 1);
    for (double& weight : weights) weight *= static_cast<double>(weights.size()) / sum;
    return weights;
  }

  /// Step by step over the windows that are worked on at a time.
  double sum(const Batch& batch, const BatchForm& form) const {
    const std::vector<double> all = batch.collect(scores_, steps_);
    double loss = 0;
    for (std::size_t first = 0; first < form.samples; first += form.at_once)
      for (std::size_t s = 0; s < steps_; ++s) {
        double of_step = 0;
        for (std::size_t b = first; b < first + form.at_once; ++b) of_step += all[b * steps_ + s];
        loss += of_step;
      }
    return loss;
  }

  std::size_t windows() const {
    return group_ * members_;
  }  // of the network: member m of window b is b M + m
  std::size_t first_start() const { return std::min(context_.history, starts_ - 1); }
  std::size_t skipped() const { return windows() * network_->first(); }  // chains that are only read

  void prepare(std::size_t group, std::size_t starts) {
    if (network_ && group == group_ && starts == starts_) return;
    group_ = group, starts_ = starts;
    network_.reset();  // frees its tapes before the new ones are made
    network_ = make_rollout_network(form_, engine_, windows(), starts, steps_, first_start());
    const std::size_t chains = windows() * starts;
    columns_.emplace(context_.system, context_.dt, context_.held, windows() * (starts - network_->first()));
    z_.assign(steps_ + 1, std::vector<double>(chains * d_));
    closure_.assign(steps_, std::vector<double>(chains * c_));
    d_closure_ = closure_;
    x_.assign(steps_, std::vector<T>(chains * (d_ + noise_)));
    y_.resize(chains * c_);
    d_x_.resize(chains * (d_ + noise_));
    for (auto* array : {&d_z_, &d_before_}) array->resize(chains * d_);
    for (auto* array : {&before_, &d_previous_}) array->resize(chains * c_);
    e_.resize(windows() * (starts + steps_) * noise_);
  }

  /// e (member, state, channel) of the group's windows, a function of the batch's seed and step.
  void draw(const Batch& batch, std::size_t first) {
    const std::size_t states = starts_ + steps_;
    parallel_for(group_, context_.threads, [&](std::size_t b, std::size_t) {
      RedNoise noise(context_.noise, context_.dt, 1);
      for (std::size_t m = 0; m < members_; ++m) {
        const NoiseStream stream{batch.seed,
                                 sample_stream(batch.step, batch.whole(), batch.sample(first + b)),
                                 static_cast<std::uint32_t>(m), Purpose::training_noise};
        for (std::size_t t = 0; t < states; ++t) {
          noise.advance(0, stream, t);
          std::copy_n(noise.of(0), noise_, e_.data() + ((b * members_ + m) * states + t) * noise_);
        }
      }
    });
  }

  /// fn(w, t, i) for every chain i of member w from t = first on; each window's members belong to one thread.
  template <class Function>
  void for_each_chain(std::size_t first, const Function& fn) const {
    parallel_for(group_, context_.threads, [&](std::size_t b, std::size_t) {
      for (std::size_t w = b * members_; w < (b + 1) * members_; ++w)
        for (std::size_t t = first; t < starts_; ++t) fn(w, t, network_->chain(w, t));
    });
  }

  /// The predictions before those of step s: the chain's own, at first that of the chain one state earlier, and
  /// without one the prediction itself, which makes the line level.
  const double* previous(std::size_t s) {
    if (s > 0) return closure_[s - 1].data() + skipped() * c_;
    for_each_chain(network_->first(), [&](std::size_t w, std::size_t t, std::size_t i) {
      std::copy_n(closure_[0].data() + earlier(w, t, i) * c_, c_, before_.data() + i * c_);
    });
    return before_.data() + skipped() * c_;
  }
  std::size_t earlier(std::size_t w, std::size_t t, std::size_t i) const {
    return t > 0 ? network_->chain(w, t - 1) : i;
  }

  void forward(const T* parameters, const Batch& batch, std::size_t first) {
    const NormaliserView input = normalisers_.input.view(), output = normalisers_.output.view();
    const std::size_t states = batch.shape.states, width = d_ + noise_;
    const auto row = [&](std::size_t w, std::size_t t) { return ((first + w / members_) * states + t) * d_; };
    for_each_chain(0, [&](std::size_t w, std::size_t t, std::size_t i) {
      std::copy_n(batch.resolved.data() + row(w, t), d_, z_[0].data() + i * d_);
    });
    for (std::size_t s = 0; s < steps_; ++s) {
      const bool noisy = s == 0 && !batch.noise.empty();
      for_each_chain(s == 0 ? 0 : network_->first(), [&](std::size_t w, std::size_t t, std::size_t i) {
        T* const x = x_[s].data() + i * width;
        for (std::size_t v = 0; v < d_; ++v) {
          const double value = input.to_network(v, z_[s][i * d_ + v]);
          x[v] = static_cast<T>(noisy ? value + batch.noise[row(w, t) + v] : value);
        }
        const double* const e = e_.data() + (w * states + t + s) * noise_;
        for (std::size_t k = 0; k < noise_; ++k) x[d_ + k] = static_cast<T>(e[k]);
      });
      network_->forward(parameters, s, x_[s].data(), y_.data());
      for (std::size_t i = 0; i < y_.size(); ++i)
        closure_[s][i] = output.to_physical(i % c_, static_cast<double>(y_[i]));
      std::ranges::copy(z_[s], z_[s + 1].begin());
      columns_->step(closure_[s].data() + skipped() * c_, previous(s), z_[s + 1].data() + skipped() * d_);
    }
  }

  /// The scores of step s; adds their slopes to those of z_[s + 1] unless they are not wanted.
  void score(const Batch& batch, std::size_t first, std::size_t s, std::vector<double>* slopes) {
    const NormaliserView input = normalisers_.input.view();
    const std::size_t states = batch.shape.states;
    const double share =
        lead_weights_[s] / static_cast<double>(batch.whole() * (starts_ - first_start()) * steps_);
    parallel_for(group_, context_.threads, [&](std::size_t b, std::size_t) {
      std::vector<double> x(members_ * d_), slope(x.size()), truth(d_), column(members_);
      double& sum = scores_[(first + b) * steps_ + s];
      sum = 0;
      for (std::size_t t = first_start(); t < starts_; ++t) {
        for (std::size_t v = 0; v < d_; ++v)
          truth[v] = batch.resolved[((first + b) * states + t + s + 1) * d_ + v] * input.factor[v];
        for (std::size_t m = 0; m < members_; ++m)
          for (std::size_t v = 0; v < d_; ++v)
            x[m * d_ + v] = z_[s + 1][chain(b, m, t) * d_ + v] * input.factor[v];
        std::ranges::fill(slope, 0.0);
        if (kind_ == LossKind::energy)
          sum += share * energy_score(x, truth, almost_fair, share, slope.data());
        else
          sum += share * mean_crps(x, truth, share, slope);
        for (std::size_t m = 0; slopes && m < members_; ++m)
          for (std::size_t v = 0; v < d_; ++v)
            (*slopes)[chain(b, m, t) * d_ + v] += slope[m * d_ + v] * input.factor[v];
      }
    });
  }

  std::size_t chain(std::size_t b, std::size_t m, std::size_t t) const {
    return network_->chain(b * members_ + m, t);
  }

  double mean_crps(const std::vector<double>& x, const std::vector<double>& truth, double share,
                   std::vector<double>& slope) const {
    std::vector<double> column(members_), slopes(members_);
    double sum = 0;
    for (std::size_t v = 0; v < d_; ++v) {
      for (std::size_t m = 0; m < members_; ++m) column[m] = x[m * d_ + v];
      std::ranges::fill(slopes, 0.0);
      sum += crps(column, truth[v], almost_fair, share / static_cast<double>(d_), slopes.data());
      for (std::size_t m = 0; m < members_; ++m) slope[m * d_ + v] = slopes[m];
    }
    return sum / static_cast<double>(d_);
  }

  void backward(const T* parameters, const Batch& batch, std::size_t first, T* gradient) {
    const NormaliserView input = normalisers_.input.view(), output = normalisers_.output.view();
    const std::size_t width = d_ + noise_, chains = windows() * starts_, d = skipped() * d_,
                      c = skipped() * c_;
    for (auto& array : d_closure_) std::ranges::fill(array, 0.0);
    std::ranges::fill(d_z_, 0.0);
    for (std::size_t s = steps_; s-- > 0;) {
      score(batch, first, s, &d_z_);
      std::ranges::fill(d_before_, 0.0);
      std::ranges::fill(d_previous_, 0.0);
      columns_->adjoint(closure_[s].data() + c, previous(s), z_[s].data() + d, d_z_.data() + d,
                        d_before_.data() + d, d_closure_[s].data() + c, d_previous_.data() + c);
      for (std::size_t w = 0; w < windows(); ++w)
        for (std::size_t t = network_->first(); t < starts_; ++t) {
          const std::size_t i = network_->chain(w, t);
          double* const to =
              s > 0 ? d_closure_[s - 1].data() + i * c_ : d_closure_[0].data() + earlier(w, t, i) * c_;
          for (std::size_t j = 0; j < c_; ++j) to[j] += d_previous_[i * c_ + j];
        }
      for (std::size_t i = 0; i < y_.size(); ++i)
        y_[i] = static_cast<T>(d_closure_[s][i] * output.scale[i % c_]);
      network_->backward(parameters, s, x_[s].data(), y_.data(), gradient, s > 0 ? d_x_.data() : nullptr);
      d_z_.swap(d_before_);
      if (s > 0)
        for (std::size_t i = skipped(); i < chains; ++i)
          for (std::size_t v = 0; v < d_; ++v)
            d_z_[i * d_ + v] += static_cast<double>(d_x_[i * width + v]) * input.factor[v];
    }
  }

  LossContext context_;
  LossKind kind_;
  std::size_t steps_;
  RolloutForm form_;
  std::size_t members_;
  std::vector<double> lead_weights_;
  Normalisers normalisers_;
  SequenceEngine<T>& engine_;
  std::size_t d_, c_, noise_;
  std::size_t group_ = 0, starts_ = 0;

  std::unique_ptr<RolloutNetwork<T>> network_;
  std::optional<CoupledColumns> columns_;
  std::vector<std::vector<double>> z_;                    // [s] (chains, d): after s steps
  std::vector<std::vector<double>> closure_, d_closure_;  // [s] (chains, c)
  std::vector<std::vector<T>> x_;                         // [s] (chains, d + noise): normalised z, then e
  std::vector<T> y_, d_x_;
  std::vector<double> d_z_, d_before_;       // (chains, d)
  std::vector<double> before_, d_previous_;  // (chains, c)
  std::vector<double> e_;                    // (windows, states, noise)
  std::vector<double> scores_;               // (batch, steps): of each window
};

}  // namespace

template <class T>
std::unique_ptr<Loss<T>> make_score_loss(const StagePlan& stage, const LossContext& context,
                                         SequenceEngine<T>& engine) {
  return std::make_unique<ScoreLoss<T>>(stage, context, engine);
}

template std::unique_ptr<Loss<float>> make_score_loss(const StagePlan&, const LossContext&,
                                                      SequenceEngine<float>&);
template std::unique_ptr<Loss<double>> make_score_loss(const StagePlan&, const LossContext&,
                                                       SequenceEngine<double>&);

}  // namespace mac
