// The closure network: its shape, its parameters, and what an engine computes.
//
//   h = SiLU(Linear(d_in -> d_model)(x))
//   n_blocks times:  h = h + Layer(LayerNorm(h))        Layer: one of <mac/layer_kinds.hpp>
//   y = Linear(d_model -> d_out)(SiLU(Linear(d_model -> d_model)(LayerNorm(h))))
//
// Arrays are row-major. A batch of sequences x is (batch, time, d_in), y is (batch, time, d_out). A recurrent
// state is (batch, state_size): one contiguous run of numbers per sample, the same in every engine and mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mac/layer_kinds.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

std::string_view to_string(LayerKind kind);
LayerKind layer_kind_from(std::string_view name);  // throws UsageError
std::vector<std::string> layer_kind_names();

/// The sizes of a network, as files and experiments give them. What follows from them within a layer is its
/// kind's own.
struct NetworkShape {
  LayerKind kind = LayerKind::mamba;
  std::size_t d_in = 0;
  std::size_t d_out = 0;
  std::size_t d_model = 0;
  std::size_t n_blocks = 0;
  /// States a channel (of an oscillator, complex ones), of kinds that have them; else 0.
  std::size_t d_state = 0;
  /// Networks of these sizes that read the same input, each with its own weights and state, and whose outputs are
  /// added up: an ensemble (mac/ensemble.hpp). Their weights are named members.0.NAME, members.1.NAME, ...
  std::size_t members = 1;

  /// The last d_out inputs are noise, which is added to the outputs times deviations that the network predicts beside
  /// them: y = m + softplus(s) e (network/deviation_engine.hpp). Its tensors are those of the network behind it, core().
  bool deviations = false;

  /// From the inputs without noise to m and s.
  NetworkShape core() const {
    NetworkShape core = *this;
    if (deviations) core.d_in -= d_out, core.d_out *= 2;
    core.deviations = false;
    return core;
  }

  /// One of them alone.
  NetworkShape member() const {
    NetworkShape one = *this;
    one.members = 1;
    return one;
  }

  /// Numbers in one sample's recurrent state, member after member, block after block; what a block's are, src/network/kinds/KIND
  /// says. Mamba: the last d_conv-1 inputs of the convolution, oldest first, (d_conv-1, d_inner), then the
  /// state-space state (d_state, d_inner). GRU: the hidden state (d_model). MLP: nothing. LSTM: hidden state (d_model), cell (d_model).
  /// Oscillator: as Mamba, with real and imaginary parts in turns for states: (2·d_state, d_inner).
  std::size_t state_size() const;

  bool operator==(const NetworkShape&) const = default;
};

/// Whether d_state is one of the sizes of a kind.
bool has_states(LayerKind kind);

/// Throws UsageError unless all sizes are positive and small enough to be meant.
void validate(const NetworkShape& shape);

struct TensorSpec {
  std::string name;                // as in a PyTorch state_dict of the same network
  std::vector<std::size_t> shape;  // row-major
  std::size_t offset = 0;          // of the first element in the flat parameter array
  std::size_t size = 0;            // number of elements
};

/// Where each named tensor lies in the one flat array that holds all parameters (and likewise gradients and
/// optimiser moments). The order is that of the data's way through the network: input_proj, block after block
/// (norm, then the layer's tensors), norm, output_proj; a weight comes before its bias.
class ParameterLayout {
 public:
  explicit ParameterLayout(const NetworkShape& shape);

  std::span<const TensorSpec> tensors() const& { return tensors_; }
  std::span<const TensorSpec> tensors() const&& = delete;  // would outlive its layout
  std::size_t size() const { return size_; }
  const TensorSpec& at(std::string_view name) const;  // throws Error naming the tensor

 private:
  std::vector<TensorSpec> tensors_;
  std::size_t size_ = 0;
};

std::size_t parameter_count(const NetworkShape& shape);

/// What the names of a member's tensors begin with: nothing where there is one network.
std::string member_prefix(const NetworkShape& shape, std::size_t member);

/// Freshly initialised parameters; the same seed gives the same values everywhere.
std::vector<double> initial_parameters(const NetworkShape& shape, std::uint64_t seed);

struct SequenceDims {
  std::size_t batch = 0;
  std::size_t time = 0;
};

/// What a forward pass leaves for its backward pass. Made by an engine for at most the given dims, reusable
/// for any number of forward/backward pairs; several tapes may be open at once.
class Tape {
 public:
  virtual ~Tape() = default;
};

template <class T>
struct Gradients {
  T* parameters = nullptr;         // (parameter_count); added to
  T* x = nullptr;                  // (batch, time, d_in); overwritten; may be null
  T* initial_state = nullptr;      // (batch, state_size); overwritten; may be null
  const T* final_state = nullptr;  // (batch, state_size): dL/d(final state) coming in; null means zero
};

/// Sequence mode: whole batches of sequences, forward and backward. One engine is used by one caller at a
/// time; it runs on at most the number of threads it was made with. Results don't depend on that number.
template <class T>
class SequenceEngine {
 public:
  virtual ~SequenceEngine() = default;

  virtual const NetworkShape& shape() const = 0;
  virtual std::unique_ptr<Tape> make_tape(SequenceDims largest) = 0;

  /// A null initial_state means zeros; a null final_state is not wanted; a null tape means no backward pass
  /// will follow.
  virtual void forward(const T* parameters, SequenceDims dims, const T* x, T* y,
                       const T* initial_state = nullptr, T* final_state = nullptr, Tape* tape = nullptr) = 0;

  /// Parameters, dims, x and initial_state are those of the forward pass that filled the tape.
  virtual void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state,
                        const T* grad_y, Tape& tape, const Gradients<T>& gradients) = 0;
};

/// Plain loops: the readable definition of the network, and the yardstick of every other engine.
template <class T>
std::unique_ptr<SequenceEngine<T>> make_reference_engine(const NetworkShape& shape);

/// SIMD and threads.
template <class T>
std::unique_ptr<SequenceEngine<T>> make_cpu_engine(const NetworkShape& shape, int threads);

/// Step mode for rollouts: one time step for a batch. The weights are packed once; the object never changes
/// afterwards, so any number of threads may step different states on one StepEngine.
template <class T>
class StepEngine {
 public:
  StepEngine(const NetworkShape& shape, std::span<const T> parameters);
  ~StepEngine();
  StepEngine(StepEngine&&) noexcept;
  StepEngine& operator=(StepEngine&&) noexcept;

  const NetworkShape& shape() const;
  std::size_t state_size() const { return shape().state_size(); }

  /// x (batch, d_in) -> y (batch, d_out); state (batch, state_size) is advanced in place. A new state is
  /// zeros. Allocates only on a thread's first step of a larger network; starts threads only if there are to
  /// be more than one. Not in the runtime library.
  void step(std::size_t batch, const T* x, T* y, T* state, int threads = 1) const;

  /// The same on the calling thread with the caller's scratch space: scratch_size() numbers at a multiple of
  /// 64 bytes, for any batch. Never allocates.
  void step(std::size_t batch, const T* x, T* y, T* state, T* scratch) const;
  std::size_t scratch_size() const;

 private:
  struct Packed;
  std::unique_ptr<const Packed> packed_;
};

}  // namespace mac
