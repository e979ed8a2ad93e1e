// The coupled model from every starting state of a window, K steps on, against the data; differentiated
// through the network and the RK4 steps between its predictions. Where rollout_gradient is not "full", a step is
// differentiated as if the reduced right-hand side were a number,
//
//   z(s+1) = [z(s)] + dt mean(C) + ...,     mean(C) = C + m (C - C before),   m the mean of the hold's share,
//
// with the path through z(s), and so through what the network reads of it, kept ("identity") or cut ("network":
// List, Chen, Bali, Thuerey, arXiv 2402.12971, call it NOG).
#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/held_rk4.hpp>
#include <optional>

#include "coupling/coupled_columns.hpp"
#include "parallel/parallel_for.hpp"
#include "training/losses.hpp"
#include "training/rollout_network.hpp"

namespace mac {

namespace {

/// Fewer coupled steps than this stay on one thread: waking another would take longer.
constexpr std::size_t chains_worth_threads = 16;

template <class T>
class RolloutLoss final : public Loss<T> {
 public:
  RolloutLoss(const LossContext& context, std::size_t steps, RolloutForm form, LossWeights weights,
              SequenceEngine<T>& engine, RolloutGradient gradient)
      : context_(context),
        steps_(steps),
        form_(form),
        gradient_(gradient),
        relative_(weights == LossWeights::relative),
        normalisers_(context.normalisation),
        sizes_(context),
        engine_(engine),
        d_(context.system.resolved_size()),
        c_(context.system.closure_size()),
        sites_(context.inputs.sites()),
        factors_(context.resolved_scale) {
    for (double& factor : factors_) factor = 1 / factor;
  }

  BatchForm form_of(std::size_t samples, SampleShape shape) const override {
    const std::size_t starts = shape.states - steps_, inputs = engine_.shape().d_in;
    const std::size_t per_window =
        starts * sites_ *
        (form_ == RolloutForm::sequence ? inputs : std::max(inputs, engine_.shape().state_size()));
    return {samples, largest_divisor(samples, group_numbers / (per_window * steps_)),
            form_ == RolloutForm::autoregressive, sites_};
  }

  double evaluate(const T* parameters, const Batch& batch, T* gradient) override {
    const std::size_t starts = batch.shape.states - steps_;
    const BatchForm form = form_of(batch.whole(), batch.shape);
    const std::size_t group = batch.count / (form.samples / form.at_once);
    sums_.resize(batch.count);
    squares_.assign(batch.count * d_, 0.0);
    slopes_.resize(batch.count * d_);
    for (std::size_t first = 0; first < batch.count; first += group) {
      prepare(group, starts, batch.systems.empty());
      forward(parameters, batch, first);
      for (std::size_t b = first; b < first + group; ++b) sums_[b] = window_loss(batch, b);
      if (gradient) backward(parameters, batch, first, gradient);
    }
    return batch.sum(sums_);
  }

 private:
  /// Window b's part of the loss from its squared errors; leaves dL/d(error) / error of each variable in
  /// slopes_.
  double window_loss(const Batch& batch, std::size_t b) {
    const double errors = static_cast<double>((starts_ - first_start()) * steps_);
    const double parts = static_cast<double>(batch.whole() * d_);
    const std::vector<double> sizes = relative_ ? sizes_.of(batch, b) : std::vector<double>();
    double loss = 0;
    for (std::size_t v = 0; v < d_; ++v) {
      const double mean = squares_[b * d_ + v] / errors;
      if (relative_) {
        const double norm = std::sqrt(mean + smallest_error * smallest_error);
        loss += norm / (sizes[v] * parts);
        slopes_[b * d_ + v] = 1 / (sizes[v] * parts * errors * norm);
      } else {
        loss += mean / parts;
        slopes_[b * d_ + v] = 2 / (parts * errors);
      }
    }
    return loss;
  }

  /// Chains that start earlier only fill the memory.
  std::size_t first_start() const { return std::min(context_.history, starts_ - 1); }

  void prepare(std::size_t windows, std::size_t starts, bool one_system) {
    if (network_ && windows == windows_ && starts == starts_ && one_system == one_system_) return;
    windows_ = windows, starts_ = starts, one_system_ = one_system;
    network_.reset();  // frees its tapes before the new ones are made
    network_ = make_rollout_network(form_, engine_, windows * sites_, starts, steps_, first_start());
    const std::size_t chains = windows * starts, rows = chains * sites_;
    columns_.reset();
    if (!one_system && !context_.dt.is_one_rk4_step())
      throw UsageError(
          "a rollout loss of systems whose parameters vary takes closure steps of one RK4 step only");
    if (one_system && (context_.system.calls_are_dear() || !context_.dt.is_one_rk4_step())) {
      columns_.emplace(context_.system, context_.dt, context_.held, windows * (starts - network_->first()));
      before_.resize(chains * c_);
      d_previous_.resize(chains * c_);
    }
    z_.assign(steps_ + 1, std::vector<double>(chains * d_));
    closure_.assign(steps_, std::vector<double>(chains * c_));
    d_closure_ = closure_;
    x_.assign(steps_, std::vector<T>(rows * engine_.shape().d_in));
    y_.resize(rows * engine_.shape().d_out);
    d_x_.resize(rows * engine_.shape().d_in);
    d_z_.resize(chains * d_);
    d_before_.resize(chains * d_);
  }

  /// States of window b's chains lie at i = chain(b, t), those of one t side by side: chains that go on after step 0
  /// are the end of every array. The network has a row for each site of a chain, where its form wants it.
  std::size_t chain(std::size_t b, std::size_t t) const { return t * windows_ + b; }
  std::size_t row(std::size_t b, std::size_t t) const { return network_->chain(b * sites_, t); }
  std::size_t next_site() const { return sites_ > 1 ? network_->chain(1, 0) - network_->chain(0, 0) : 0; }

  /// fn(b, t, i) for every chain i = chain(b, t) from t = first on; each window belongs to one thread.
  template <class Function>
  void for_each_chain(std::size_t first, const Function& fn) const {
    parallel_for(windows_, windows_ * starts_ > chains_worth_threads ? context_.threads : 1,
                 [&](std::size_t b, std::size_t) {
                   for (std::size_t t = first; t < starts_; ++t) fn(b, t, chain(b, t));
                 });
  }

  /// The prediction before that of step s: the chain's own, or for s = 0 that of the chain one state earlier.
  /// Chain i is (b, t); -1: there is none.
  struct Previous {
    std::ptrdiff_t step = -1;
    std::size_t chain = 0;
  };
  Previous previous(std::size_t s, std::size_t b, std::size_t t, std::size_t i) const {
    if (s > 0) return {static_cast<std::ptrdiff_t>(s) - 1, i};
    if (t > 0) return {0, chain(b, t - 1)};
    return {};
  }
  template <class Arrays>
  auto* at(Arrays& arrays, Previous previous) const {
    return previous.step < 0 ? nullptr
                             : arrays[static_cast<std::size_t>(previous.step)].data() + previous.chain * c_;
  }

  // Steps of all chains in one call of the right-hand side. A chain without an earlier prediction takes its own for it: the line is then level.

  Previous or_own(Previous before, std::size_t s, std::size_t i) const {
    return before.step < 0 ? Previous{static_cast<std::ptrdiff_t>(s), i} : before;
  }

  void gather_previous(std::size_t s) {
    for_each_chain(network_->first(), [&](std::size_t b, std::size_t t, std::size_t i) {
      std::copy_n(at(closure_, or_own(previous(s, b, t, i), s, i)), c_, before_.data() + i * c_);
    });
  }

  std::size_t skipped() const { return windows_ * network_->first(); }

  void step_columns(std::size_t s) {
    gather_previous(s);
    std::ranges::copy(z_[s], z_[s + 1].begin());
    columns_->step(closure_[s].data() + skipped() * c_, before_.data() + skipped() * c_,
                   z_[s + 1].data() + skipped() * d_);
  }

  /// Chain (b, t) of step s, past the right-hand side: from d_next (d) to d_z before the step and to the closures.
  void held_back(std::size_t s, std::size_t b, std::size_t t, std::size_t i, const double* d_next) {
    const Previous before = previous(s, b, t, i);
    // The share is linear in the fraction of a step, so its mean is that of the middle.
    const double m = held_rk4::share(context_.held, before.step >= 0, 0.5), dt = context_.dt;
    const auto targets = context_.system.closure_targets();
    double* const to = at(d_closure_, before);
    for (std::size_t j = 0; j < c_; ++j) {
      const double d_mean = dt * d_next[targets[j]];
      d_closure_[s][i * c_ + j] += (1 + m) * d_mean;
      if (m != 0) to[j] -= m * d_mean;
    }
    if (gradient_ == RolloutGradient::identity)
      for (std::size_t v = 0; v < d_; ++v) d_before_[i * d_ + v] += d_next[v];
  }

  void step_columns_back(std::size_t s) {
    gather_previous(s);
    std::ranges::fill(d_previous_, 0.0);
    const std::size_t d = skipped() * d_, c = skipped() * c_;
    columns_->adjoint(closure_[s].data() + c, before_.data() + c, z_[s].data() + d, d_z_.data() + d,
                      d_before_.data() + d, d_closure_[s].data() + c, d_previous_.data() + c);
    for (std::size_t b = 0; b < windows_; ++b)
      for (std::size_t t = network_->first(); t < starts_; ++t) {
        const std::size_t i = chain(b, t);
        double* const to = at(d_closure_, or_own(previous(s, b, t, i), s, i));
        for (std::size_t j = 0; j < c_; ++j) to[j] += d_previous_[i * c_ + j];
      }
  }

  void forward(const T* parameters, const Batch& batch, std::size_t first) {
    const NormaliserView output = normalisers_.output.view();
    const std::size_t states = batch.shape.states, n_out = outputs(), stride = next_site();
    const std::size_t going = network_->first();
    for_each_chain(0, [&](std::size_t b, std::size_t t, std::size_t i) {
      std::copy_n(batch.resolved.data() + ((first + b) * states + t) * d_, d_, z_[0].data() + i * d_);
    });
    for (std::size_t s = 0; s < steps_; ++s) {
      const std::size_t from = s == 0 ? 0 : going;
      for_each_chain(from, [&](std::size_t b, std::size_t t, std::size_t i) {
        take(batch, first + b, b, t, s, z_[s].data() + i * d_);
      });
      network_->forward(parameters, s, x_[s].data(), y_.data());
      for_each_chain(from, [&](std::size_t b, std::size_t t, std::size_t i) {
        const T* y = y_.data() + row(b, t) * n_out;
        for (std::size_t site = 0; site < sites_; ++site, y += stride * n_out)
          for (std::size_t j = 0; j < n_out; ++j)
            closure_[s][i * c_ + map().closure(site, j)] = output.to_physical(j, static_cast<double>(y[j]));
      });
      if (columns_) step_columns(s);
      for_each_chain(going, [&](std::size_t b, std::size_t t, std::size_t i) {
        double* const next = z_[s + 1].data() + i * d_;
        if (!columns_) {
          std::copy_n(z_[s].data() + i * d_, d_, next);
          coupled_step(batch.system_of(first + b, context_.system), context_.dt, context_.held,
                       closure_[s].data() + i * c_, at(closure_, previous(s, b, t, i)), next);
        }
        if (!counts(batch, first + b, t, s)) return;
        const double* truth = batch.resolved.data() + ((first + b) * states + t + s + 1) * d_;
        for (std::size_t v = 0; v < d_; ++v) {
          const double error = (next[v] - truth[v]) * factors_[v];
          squares_[(first + b) * d_ + v] += error * error;
        }
      });
    }
  }

  void backward(const T* parameters, const Batch& batch, std::size_t first, T* gradient) {
    const NormaliserView input = normalisers_.input.view(), output = normalisers_.output.view();
    const std::size_t states = batch.shape.states, n_in = inputs(), n_out = outputs(), stride = next_site();
    for (auto& array : d_closure_) std::ranges::fill(array, 0.0);
    std::ranges::fill(d_z_, 0.0);
    for (std::size_t s = steps_; s-- > 0;) {
      std::ranges::fill(d_before_, 0.0);
      for_each_chain(network_->first(), [&](std::size_t b, std::size_t t, std::size_t i) {
        const double* truth = batch.resolved.data() + ((first + b) * states + t + s + 1) * d_;
        double* const d_next = d_z_.data() + i * d_;
        for (std::size_t v = 0; v < d_ && counts(batch, first + b, t, s); ++v)
          d_next[v] +=
              slopes_[(first + b) * d_ + v] * (z_[s + 1][i * d_ + v] - truth[v]) * factors_[v] * factors_[v];
        if (gradient_ != RolloutGradient::full) return held_back(s, b, t, i, d_next);
        if (columns_) return;
        const Previous before = previous(s, b, t, i);
        coupled_step_adjoint(batch.system_of(first + b, context_.system), context_.dt, context_.held,
                             closure_[s].data() + i * c_, at(closure_, before), z_[s].data() + i * d_, d_next,
                             d_before_.data() + i * d_, d_closure_[s].data() + i * c_,
                             at(d_closure_, before));
      });
      if (columns_ && gradient_ == RolloutGradient::full) step_columns_back(s);
      const std::size_t from = s == 0 ? 0 : network_->first();
      for_each_chain(from, [&](std::size_t b, std::size_t t, std::size_t i) {
        T* d_y = y_.data() + row(b, t) * n_out;
        for (std::size_t site = 0; site < sites_; ++site, d_y += stride * n_out)
          for (std::size_t j = 0; j < n_out; ++j)
            d_y[j] = static_cast<T>(d_closure_[s][i * c_ + map().closure(site, j)] * output.scale[j]);
      });
      const bool states_are_data = s == 0 || gradient_ == RolloutGradient::network;
      network_->backward(parameters, s, x_[s].data(), y_.data(), gradient,
                         states_are_data ? nullptr : d_x_.data());
      d_z_.swap(d_before_);
      if (states_are_data) continue;
      for_each_chain(from, [&](std::size_t b, std::size_t t, std::size_t i) {
        const T* const d_x = d_x_.data() + row(b, t) * n_in;
        map().read_adjoint(
            z_[s].data() + i * d_,
            [&](std::size_t site, std::size_t f) {
              return static_cast<double>(d_x[site * stride * n_in + f]) * input.factor[f];
            },
            d_z_.data() + i * d_);
      });
    }
  }

  /// Whether the error of window `sample`'s chain from t after step s is part of the loss: a chain starts from data and
  /// is compared with data.
  bool counts(const Batch& batch, std::size_t sample, std::size_t t, std::size_t s) const {
    if (t < first_start()) return false;
    if (batch.known.empty()) return true;
    const char* const known = batch.known.data() + sample * batch.shape.states;
    return known[t] && known[t + s + 1];
  }

  const InputMap& map() const { return context_.inputs; }
  std::size_t inputs() const { return normalisers_.input.size(); }
  std::size_t outputs() const { return normalisers_.output.size(); }

  /// The network's input at state z of chain (b, t) after s steps; the window is number `sample` of the batch. Only what
  /// is read from the data is noisy.
  void take(const Batch& batch, std::size_t sample, std::size_t b, std::size_t t, std::size_t s,
            const double* z) {
    const NormaliserView input = normalisers_.input.view();
    const std::size_t at = sample * batch.shape.states + t;
    const double* const noise = s == 0 && !batch.noise.empty() ? batch.noise.data() + at * d_ : nullptr;
    if (map().is_plain()) {
      T* const x = x_[s].data() + row(b, t) * d_;
      for (std::size_t v = 0; v < d_; ++v) {
        double value = input.to_network(v, z[v]);
        if (noise) value += noise[v];
        x[v] = static_cast<T>(value);
      }
      return;
    }
    thread_local std::vector<double> noisy;
    if (noise) {
      noisy.resize(d_);
      for (std::size_t v = 0; v < d_; ++v) noisy[v] = z[v] + noise[v] * context_.resolved_scale[v];
      z = noisy.data();
    }
    const double* const given =
        batch.given.empty() ? nullptr : batch.given.data() + (at + s) * map().given_size();
    const std::size_t n_in = inputs(), stride = next_site();
    T* const x = x_[s].data() + row(b, t) * n_in;
    map().read(z, given, [&](std::size_t site, std::size_t f, double value) {
      x[site * stride * n_in + f] = static_cast<T>(input.to_network(f, value));
    });
  }

  LossContext context_;
  std::size_t steps_;
  RolloutForm form_;
  RolloutGradient gradient_;
  bool relative_;
  Normalisers normalisers_;
  VariableSizes sizes_;
  SequenceEngine<T>& engine_;
  std::size_t d_, c_, sites_;
  std::vector<double> factors_;  // (d): 1/scale of the resolved variables
  std::size_t windows_ = 0, starts_ = 0;
  bool one_system_ = true;  // for all windows

  std::unique_ptr<RolloutNetwork<T>> network_;
  std::vector<std::vector<double>> z_;                    // [s] (chains, d): after s steps
  std::vector<std::vector<double>> closure_, d_closure_;  // [s] (chains, c)
  std::vector<std::vector<T>> x_;                         // [s] (rows, inputs): what the network reads of z
  std::vector<T> y_, d_x_;                                // (rows, outputs), (rows, inputs)
  std::vector<double> d_z_, d_before_;                    // (chains, d)
  std::vector<double> squares_, slopes_;                  // (batch, d): of each window and variable
  std::vector<double> sums_;                              // (batch): of each window

  std::optional<CoupledColumns>
      columns_;  // where a call of the right-hand side is dear, or a step has substeps
  std::vector<double> before_, d_previous_;  // (chains, c): the predictions before those of a step
};

}  // namespace

template <class T>
std::unique_ptr<Loss<T>> make_rollout_loss(const LossContext& context, std::size_t steps, RolloutForm form,
                                           LossWeights weights, SequenceEngine<T>& engine,
                                           RolloutGradient gradient) {
  return std::make_unique<RolloutLoss<T>>(context, steps, form, weights, engine, gradient);
}

template std::unique_ptr<Loss<float>> make_rollout_loss(const LossContext&, std::size_t, RolloutForm,
                                                        LossWeights, SequenceEngine<float>&, RolloutGradient);
template std::unique_ptr<Loss<double>> make_rollout_loss(const LossContext&, std::size_t, RolloutForm,
                                                         LossWeights, SequenceEngine<double>&,
                                                         RolloutGradient);

}  // namespace mac
