#include "predict/predict.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/progress.hpp>

#include "coupling/fourier_frame.hpp"
#include "network/normaliser.hpp"
#include "parallel/thread_count.hpp"

namespace mac {

namespace {

// A batch goes through the network in pieces of this size, so that memory stays small whatever its length.
constexpr std::size_t samples_per_piece = 16;
constexpr std::size_t times_per_piece = 64;

template <class T>
std::unique_ptr<SequenceEngine<T>> make_engine(const NetworkShape& shape, const PredictOptions& options) {
  if (options.engine == EngineChoice::reference) return make_reference_engine<T>(shape);
  return make_cpu_engine<T>(shape, thread_count(options.threads));
}

}  // namespace

class Predictor::Impl {
 public:
  virtual ~Impl() = default;
  virtual std::vector<double> run(SequenceDims dims, const std::vector<double>& x) = 0;
};

template <class T>
class Predictor::Typed final : public Impl {
 public:
  Typed(const Model& model, const PredictOptions& options)
      : shape_(model.shape),
        frame_modes_(model.frame_modes()),
        normalisers_(model.normalisation),
        parameters_(parameters_as<T>(model)),
        threads_(thread_count(options.threads)),
        times_(options.mode == ModeChoice::step ? 1 : times_per_piece) {
    if (model.noise.channels > 0)
      throw UsageError("the network is stochastic: what it predicts depends on noise; mac rollout runs it");
    if (options.engine == EngineChoice::cpu && options.mode == ModeChoice::step)
      step_ = std::make_unique<StepEngine<T>>(shape_, parameters_);
    else
      sequence_ = make_engine<T>(shape_, options);
  }

  std::vector<double> run(SequenceDims dims, const std::vector<double>& x) override {
    std::vector<double> y(dims.batch * dims.time * shape_.d_out);
    for (std::size_t sample = 0; sample < dims.batch; sample += samples_per_piece) {
      const std::size_t samples = std::min(samples_per_piece, dims.batch - sample);
      state_.assign(samples * shape_.state_size(), T(0));
      ColumnFrames frames(frame_modes_, samples);
      for (std::size_t b = 0; frames.exist() && b < samples; ++b)
        frames.choose(b, x.data() + (sample + b) * dims.time * shape_.d_in);
      for (std::size_t time = 0; time < dims.time; time += times_) {
        const std::size_t times = std::min(times_, dims.time - time);
        take(dims, x, sample, samples, time, times, frames);
        advance({samples, times});
        give(dims, y, sample, samples, time, times, frames);
      }
      throw_if_interrupted();
    }
    return y;
  }

 private:
  /// The piece of x, normalised.
  void take(SequenceDims dims, const std::vector<double>& x, std::size_t sample, std::size_t samples,
            std::size_t time, std::size_t times, const ColumnFrames& frames) {
    piece_x_.clear();
    std::vector<double> row(shape_.d_in);
    for (std::size_t b = sample; b < sample + samples; ++b)
      for (std::size_t t = time; t < time + times; ++t) {
        std::copy_n(x.data() + (b * dims.time + t) * shape_.d_in, shape_.d_in, row.data());
        if (frames.exist()) frames.enter(b - sample, row.data());
        for (std::size_t i = 0; i < shape_.d_in; ++i)
          piece_x_.push_back(static_cast<T>(normalisers_.input.to_network(i, row[i])));
      }
  }

  void advance(SequenceDims piece) {
    piece_y_.resize(piece.batch * piece.time * shape_.d_out);
    if (step_) {
      step_->step(piece.batch, piece_x_.data(), piece_y_.data(), state_.data(), threads_);
    } else {
      next_state_.resize(state_.size());
      sequence_->forward(parameters_.data(), piece, piece_x_.data(), piece_y_.data(), state_.data(),
                         next_state_.data());
      state_.swap(next_state_);
    }
  }

  /// The network's output in physical units.
  void give(SequenceDims dims, std::vector<double>& y, std::size_t sample, std::size_t samples,
            std::size_t time, std::size_t times, const ColumnFrames& frames) const {
    auto value = piece_y_.begin();
    for (std::size_t b = sample; b < sample + samples; ++b)
      for (std::size_t t = time; t < time + times; ++t) {
        double* const row = y.data() + (b * dims.time + t) * shape_.d_out;
        for (std::size_t i = 0; i < shape_.d_out; ++i) {
          if (!std::isfinite(*value))
            throw Error("the network's output is {} in sample {} at time index {}", *value, b, t);
          row[i] = normalisers_.output.to_physical(i, static_cast<double>(*value++));
        }
        if (frames.exist()) frames.leave(b - sample, row);
      }
  }

  NetworkShape shape_;
  std::size_t frame_modes_;
  Normalisers normalisers_;
  std::vector<T> parameters_;
  int threads_;
  std::size_t times_;  // in one piece
  std::unique_ptr<SequenceEngine<T>> sequence_;
  std::unique_ptr<StepEngine<T>> step_;
  std::vector<T> piece_x_, piece_y_, state_, next_state_;
};

Predictor::Predictor(const Model& model, const PredictOptions& options) {
  if (options.precision.value_or(model.precision()) == Precision::float32)
    impl_ = std::make_unique<Typed<float>>(model, options);
  else
    impl_ = std::make_unique<Typed<double>>(model, options);
}

Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;

std::vector<double> Predictor::operator()(SequenceDims dims, const std::vector<double>& x) {
  return impl_->run(dims, x);
}

}  // namespace mac
