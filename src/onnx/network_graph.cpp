// The step network, operation by operation; the equations are those of network/reference_*.hpp.
#include <cmath>
#include <mac/onnx.hpp>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "network/normaliser.hpp"
#include "network/parameters.hpp"
#include "onnx/graph.hpp"

namespace mac {

namespace {

using onnx::ElementType;
using onnx::Graph;
using onnx::Value;

constexpr float layer_norm_epsilon = 1e-5F;

class NetworkGraph {
 public:
  explicit NetworkGraph(const Model& model)
      : model_(model),
        shape_(model.shape),
        layout_(model.shape),
        parameters_(parameters_as<float>(model)),
        graph_("closure_step") {}

  std::string bytes() {
    const std::size_t block_state = shape_.state_size() / shape_.n_blocks;
    const Value resolved =
        graph_.input("resolved", ElementType::float64, shape_.d_in, "resolved variables, physical units");
    const Value state = graph_.input("state", ElementType::float32, shape_.state_size(),
                                     "memory of the steps before; zeros at the start");
    std::vector<Value> states{state};
    if (shape_.n_blocks > 1)
      states = graph_.split(state, std::vector<std::size_t>(shape_.n_blocks, block_state));

    Value h = silu(linear(normalised(resolved), "input_proj.weight", "input_proj.bias"));
    for (std::size_t i = 0; i < shape_.n_blocks; ++i) {
      const std::string prefix = fmt::format("blocks.{}.", i);
      const Value u = layer_norm(h, prefix + "norm");
      h = graph_.add("Add", {h, shape_.kind == LayerKind::mamba ? mamba(u, prefix + "mamba.", states[i])
                                                                : gru(u, prefix + "gru.", states[i])});
    }
    const Value hidden = silu(linear(layer_norm(h, "norm"), "output_proj.0.weight", "output_proj.0.bias"));
    physical(linear(hidden, "output_proj.2.weight", "output_proj.2.bias"));
    graph_.add("Concat", states, {{"axis", std::int64_t{1}}}, "next_state");
    graph_.output("closure", ElementType::float64, shape_.d_out, "closure, physical units");
    graph_.output("next_state", ElementType::float32, shape_.state_size(), "state of the next step");
    return graph_.model_bytes("One step of a closure network: resolved variables in, closure out.",
                              metadata());
  }

 private:
  // Weights keep their names.
  Value weight(const std::string& name) {
    const TensorSpec& tensor = layout_.at(name);
    return graph_.constant(name, tensor.shape, values(tensor));
  }
  std::span<const float> values(const TensorSpec& tensor) const {
    return std::span(parameters_).subspan(tensor.offset, tensor.size);
  }
  /// A tensor (rows, columns) turned over.
  Value transposed(const std::string& name, const std::string& new_name, std::size_t rows,
                   std::size_t columns, float (*function)(float)) {
    const auto from = values(layout_.at(name));
    std::vector<float> to(from.size());
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) to[c * rows + r] = function(from[r * columns + c]);
    return graph_.constant(new_name, {columns, rows}, to);
  }

  Value linear(const Value& x, const std::string& name, const std::string& bias = "") {
    std::vector<Value> inputs{x, weight(name)};
    if (!bias.empty()) inputs.push_back(weight(bias));
    return graph_.add("Gemm", inputs, {{"transB", std::int64_t{1}}});
  }
  Value silu(const Value& x) { return graph_.add("Mul", {x, graph_.add("Sigmoid", {x})}); }
  Value layer_norm(const Value& x, const std::string& name) {
    return graph_.add("LayerNormalization", {x, weight(name + ".weight"), weight(name + ".bias")},
                      {{"epsilon", layer_norm_epsilon}});
  }
  /// (batch, rows · columns) as (batch, rows, columns); -1 for what the others leave.
  Value reshape(const Value& x, const std::vector<std::int64_t>& shape) {
    return graph_.add("Reshape", {x, graph_.integers(shape)});
  }
  Value cast(const Value& x, ElementType type, const std::string& result = "") {
    return graph_.add("Cast", {x}, {{"to", static_cast<std::int64_t>(type)}}, result);
  }

  Value normalised(const Value& resolved) {
    const Normalisation& n = model_.normalisation;
    const Value centred =
        graph_.add("Sub", {resolved, graph_.constant("input_mean", {shape_.d_in}, n.input_mean)});
    const Normalisers normalisers(n);
    std::vector<double> factor;
    for (std::size_t i = 0; i < shape_.d_in; ++i) factor.push_back(normalisers.input.factor(i));
    const Value scaled = graph_.add("Mul", {centred, graph_.constant("input_factor", {shape_.d_in}, factor)});
    return cast(scaled, ElementType::float32);
  }
  void physical(const Value& output) {
    const Normalisation& n = model_.normalisation;
    const Value scaled = graph_.add("Mul", {cast(output, ElementType::float64),
                                            graph_.constant("output_scale", {shape_.d_out}, n.output_scale)});
    graph_.add("Add", {scaled, graph_.constant("output_mean", {shape_.d_out}, n.output_mean)}, {}, "closure");
  }

  /// u (batch, d_model); the state is the last inputs of the convolution, then s; it becomes the next one.
  Value mamba(const Value& u, const std::string& name, Value& state) {
    const std::size_t inner = shape_.d_inner(), states = shape_.d_state, rank = shape_.dt_rank();
    constexpr std::size_t taps = NetworkShape::d_conv;
    const auto before = graph_.split(state, {(taps - 1) * inner, states * inner});
    const auto xz = graph_.split(linear(u, name + "in_proj.weight"), {inner, inner});

    const Value window = graph_.add("Concat", {before[0], xz[0]}, {{"axis", std::int64_t{1}}});
    const Value next_window = graph_.split(window, {inner, (taps - 1) * inner})[1];
    const Value kernel = transposed(name + "conv1d.weight", name + "conv1d.taps", inner, taps,
                                    [](float value) { return value; });
    const Value products = graph_.add("Mul", {reshape(window, {0, taps, -1}), kernel});
    const Value convolved = graph_.add("Add", {sum_over_rows(products), weight(name + "conv1d.bias")});
    const Value v = silu(convolved);

    const auto dt_b_c = graph_.split(linear(v, name + "x_proj.weight"), {rank, states, states});
    const Value delta =
        graph_.add("Softplus", {linear(dt_b_c[0], name + "dt_proj.weight", name + "dt_proj.bias")});
    const Value A = transposed(name + "A_log", name + "A", inner, states,
                               [](float value) { return static_cast<float>(-std::exp(double{value})); });
    const Value decay = graph_.add("Exp", {graph_.add("Mul", {reshape(delta, {0, 1, -1}), A})});
    const Value decayed = graph_.add("Mul", {decay, reshape(before[1], {0, std::int64_t(states), -1})});
    const Value drive = reshape(graph_.add("Mul", {delta, v}), {0, 1, -1});
    const Value driven = graph_.add("Mul", {drive, reshape(dt_b_c[1], {0, -1, 1})});
    const Value s = graph_.add("Add", {decayed, driven});  // (batch, d_state, d_inner)

    const Value read = sum_over_rows(graph_.add("Mul", {s, reshape(dt_b_c[2], {0, -1, 1})}));
    const Value p = graph_.add("Add", {read, graph_.add("Mul", {weight(name + "D"), v})});
    state = graph_.add("Concat", {next_window, reshape(s, {0, -1})}, {{"axis", std::int64_t{1}}});
    return linear(graph_.add("Mul", {p, silu(xz[1])}), name + "out_proj.weight");
  }
  /// (batch, rows, columns) -> (batch, columns)
  Value sum_over_rows(const Value& x) {
    return graph_.add("ReduceSum", {x, graph_.integers({1})}, {{"keepdims", std::int64_t{0}}});
  }

  /// u (batch, d_model); the state is h; it becomes the next one.
  Value gru(const Value& u, const std::string& name, Value& state) {
    const std::vector<std::size_t> gates(3, shape_.d_model);
    const auto i = graph_.split(linear(u, name + "weight_ih_l0", name + "bias_ih_l0"), gates);
    const auto q = graph_.split(linear(state, name + "weight_hh_l0", name + "bias_hh_l0"), gates);
    const Value r = graph_.add("Sigmoid", {graph_.add("Add", {i[0], q[0]})});
    const Value z = graph_.add("Sigmoid", {graph_.add("Add", {i[1], q[1]})});
    const Value n = graph_.add("Tanh", {graph_.add("Add", {i[2], graph_.add("Mul", {r, q[2]})})});
    const Value change = graph_.add("Mul", {z, graph_.add("Sub", {state, n})});  // h' = n + z (h - n)
    state = graph_.add("Add", {n, change});
    return state;
  }

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> entries{{"kind", std::string(to_string(shape_.kind))}};
    if (!model_.system.empty()) entries["system"] = model_.system;
    if (!model_.input_names.empty()) entries["input_names"] = nlohmann::json(model_.input_names).dump();
    if (!model_.output_names.empty()) entries["output_names"] = nlohmann::json(model_.output_names).dump();
    if (const auto targets = find_closure_targets(model_); !targets.empty())
      entries["closure_targets"] = nlohmann::json(targets).dump();
    if (model_.closure_step) entries["closure_step"] = fmt::format("{}", *model_.closure_step);
    if (model_.held) {
      entries["hold"] = to_string(model_.held->hold);
      entries["target"] = to_string(model_.held->target);
    }
    return entries;
  }

  const Model& model_;
  const NetworkShape& shape_;
  ParameterLayout layout_;
  std::vector<float> parameters_;
  Graph graph_;
};

}  // namespace

std::string onnx_bytes(const Model& model) { return NetworkGraph(model).bytes(); }

void export_onnx(const Model& model, const std::filesystem::path& path) {
  write_file_atomically(path, onnx_bytes(model));
}

}  // namespace mac
