// The step network, operation by operation; the equations are those of kinds/KIND/reference.hpp.
#include <mac/onnx.hpp>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "io/input_file.hpp"
#include "network/kinds/engines.hpp"
#include "network/normaliser.hpp"
#include "network/step_graph.hpp"

namespace mac {

namespace {

using onnx::ElementType;
using onnx::Value;

class NetworkGraph {
 public:
  explicit NetworkGraph(const Model& model)
      : model_(model), shape_(model.shape), graph_("closure_step", model) {}

  std::string bytes() {
    const std::size_t blocks = shape_.members * shape_.n_blocks, block_state = shape_.state_size() / blocks;
    const Value resolved = graph_.input("resolved", ElementType::float64, model_.input_size(),
                                        "resolved variables, physical units");
    const Value state = graph_.input("state", ElementType::float32, shape_.state_size(),
                                     "memory of the steps before; zeros at the start");
    Value x = normalised(resolved);
    if (model_.noise.channels > 0)
      x = graph_.concat(
          {x, graph_.input("noise", ElementType::float32, model_.noise.channels,
                           "random numbers of mean 0 and variance 1, as noise_time in the metadata "
                           "correlates them; zeros: deterministic")});
    std::vector<Value> states(blocks, state);  // an empty state is everybody's
    if (blocks > 1 && block_state > 0)
      states = graph_.split(state, std::vector<std::size_t>(blocks, block_state));

    const auto layer = [&](const Value& u, const std::string& prefix, Value& of_block) {
      return engines_of(shape_.kind).step(graph_, shape_, u, prefix, of_block);
    };
    physical(network_step(graph_, shape_, x, states, layer));
    if (block_state > 0)
      graph_.concat(states, "next_state");
    else
      graph_.add("Identity", {state}, {}, "next_state");
    graph_.output("closure", ElementType::float64, shape_.d_out, "closure, physical units");
    graph_.output("next_state", ElementType::float32, shape_.state_size(), "state of the next step");
    return graph_.model_bytes("One step of a closure network: resolved variables in, closure out.",
                              metadata());
  }

 private:
  Value normalised(const Value& resolved) {
    const Normalisation& n = model_.normalisation;
    const Value centred =
        graph_.add("Sub", {resolved, graph_.constant("input_mean", {model_.input_size()}, n.input_mean)});
    const Normalisers normalisers(n);
    std::vector<double> factor;
    for (std::size_t i = 0; i < model_.input_size(); ++i) factor.push_back(normalisers.input.factor(i));
    const Value scaled =
        graph_.add("Mul", {centred, graph_.constant("input_factor", {model_.input_size()}, factor)});
    return graph_.cast(scaled, ElementType::float32);
  }
  void physical(const Value& output) {
    const Normalisation& n = model_.normalisation;
    const Value scaled = graph_.add("Mul", {graph_.cast(output, ElementType::float64),
                                            graph_.constant("output_scale", {shape_.d_out}, n.output_scale)});
    graph_.add("Add", {scaled, graph_.constant("output_mean", {shape_.d_out}, n.output_mean)}, {}, "closure");
  }

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> entries{{"kind", std::string(to_string(shape_.kind))}};
    if (!model_.system.empty()) entries["system"] = model_.system;
    if (!model_.input_names.empty()) entries["input_names"] = nlohmann::json(model_.input_names).dump();
    if (!model_.inputs.of.empty()) entries["local_of"] = nlohmann::json(model_.inputs.of).dump();
    if (model_.inputs.frame == Frame::initial) entries["frame"] = to_string(model_.inputs.frame);
    if (!model_.inputs.given.empty()) entries["given_inputs"] = nlohmann::json(model_.inputs.given).dump();
    if (!model_.output_names.empty()) entries["output_names"] = nlohmann::json(model_.output_names).dump();
    if (const auto targets = find_closure_targets(model_); !targets.empty())
      entries["closure_targets"] = nlohmann::json(targets).dump();
    if (model_.noise.channels > 0) entries["noise_time"] = fmt::format("{}", model_.noise.time);
    if (model_.closure_step) entries["closure_step"] = fmt::format("{}", *model_.closure_step);
    if (model_.held) {
      entries["hold"] = to_string(model_.held->hold);
      entries["target"] = to_string(model_.held->target);
    }
    return entries;
  }

  const Model& model_;
  const NetworkShape& shape_;
  onnx::LayerGraph graph_;
};

}  // namespace

std::string onnx_bytes(const Model& model) { return NetworkGraph(model).bytes(); }

void export_onnx(const Model& model, const std::filesystem::path& path) {
  write_file_atomically(path, onnx_bytes(model));
}

Model export_onnx(const std::string& model_file, const std::filesystem::path& path) {
  check_output(path, {model_file});
  Model model = load_model(model_file);
  export_onnx(model, path);
  return model;
}

}  // namespace mac
