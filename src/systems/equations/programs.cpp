#include "systems/equations/programs.hpp"

#include "systems/equations/build.hpp"
#include "systems/equations/device_code.hpp"

namespace mac::equations {

namespace {

Graph make_graph(const Model& model) {
  std::vector<Ring> rings;
  for (const Variable& variable : model.variables) rings.push_back({variable.offset, variable.lattice.size});
  return Graph(std::move(rings));
}

/// A node of one number has it for every point.
std::vector<std::int32_t> places(const Model& model, const Equation& equation) {
  std::vector<std::int32_t> result;
  for (const std::int32_t point : equation.points)
    result.push_back(model.variables[equation.variable].offset + point);
  return result;
}

std::vector<Output> reduced_rates(const Model& model, const std::vector<double>& means, Graph& graph) {
  Builder builder(model, graph, View::reduced, means);
  std::vector<Output> outputs;
  for (const Equation& equation : model.equations)
    if (model.variables[equation.variable].resolved)
      outputs.push_back({builder.rate(equation), places(model, equation)});
  return outputs;
}

}  // namespace

std::vector<std::size_t> closure_targets(const Model& model) {
  Graph graph = make_graph(model);
  Builder builder(model, graph, View::full);
  for (const auto& [name, definition] : model.definitions) builder.quantity(definition);  // also unused ones
  std::vector<bool> closed(static_cast<std::size_t>(model.resolved_size));
  for (const Equation& equation : model.equations) {
    builder.rate(equation);
    if (!builder.saw_hidden || !model.variables[equation.variable].resolved) continue;
    for (const std::int32_t place : places(model, equation)) closed[static_cast<std::size_t>(place)] = true;
  }
  std::vector<std::size_t> targets;
  for (std::size_t v = 0; v < closed.size(); ++v)
    if (closed[v]) targets.push_back(v);
  return targets;
}

Program full_program(const Model& model, const std::vector<std::size_t>& targets,
                     const std::vector<double>& means, bool with_closure) {
  Graph graph = make_graph(model);
  Builder full(model, graph, View::full), reduced(model, graph, View::reduced, means);
  std::vector<std::int32_t> closure_of(static_cast<std::size_t>(model.full_size), -1);
  for (std::size_t j = 0; j < targets.size(); ++j) closure_of[targets[j]] = static_cast<std::int32_t>(j);
  std::vector<Output> outputs;
  for (const Equation& equation : model.equations) {
    const Node rate = full.rate(equation);
    const std::vector<std::int32_t> at = places(model, equation);
    outputs.push_back({rate, at});
    if (!with_closure || closure_of[static_cast<std::size_t>(at.front())] < 0) continue;
    std::vector<std::int32_t> closures;
    for (const std::int32_t place : at)
      closures.push_back(model.full_size + closure_of[static_cast<std::size_t>(place)]);
    outputs.push_back({graph.apply(Op::sub, rate, reduced.rate(equation)), std::move(closures)});
  }
  const std::size_t size = static_cast<std::size_t>(model.full_size) + (with_closure ? targets.size() : 0);
  return Program(graph, outputs, size, false);
}

Program reduced_program(const Model& model, const std::vector<double>& means, bool keep) {
  Graph graph = make_graph(model);
  const std::vector<Output> outputs = reduced_rates(model, means, graph);
  return Program(graph, outputs, static_cast<std::size_t>(model.resolved_size), keep);
}

std::optional<std::string> reduced_code(const Model& model, const std::vector<double>& means) {
  Graph graph = make_graph(model);
  const std::vector<Output> outputs = reduced_rates(model, means, graph);
  return device_code(graph, outputs, static_cast<std::size_t>(model.resolved_size));
}

Program scalar_program(const Model& model, const std::vector<Expression>& expressions) {
  Graph graph = make_graph(model);
  Builder builder(model, graph, View::full);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < expressions.size(); ++i)
    outputs.push_back({builder.scalar(expressions[i]), {static_cast<std::int32_t>(i)}});
  return Program(graph, outputs, expressions.size(), false);
}

}  // namespace mac::equations
