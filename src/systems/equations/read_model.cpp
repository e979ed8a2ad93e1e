#include "systems/equations/read_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/nearest.hpp"
#include "systems/equations/build.hpp"

namespace mac::equations {

bool mentions(const Expression& e, std::string_view name) {
  if (e.kind == Expression::Kind::reference && e.name == name) return true;
  return std::ranges::any_of(e.arguments, [&](const Expression& part) { return mentions(part, name); });
}

namespace {

/// Runs `read`; what it finds wrong in `text` becomes the error of `key`.
template <class Read>
auto pointing(const ConfigTable& table, std::string_view key, std::string_view text, const Read& read) {
  try {
    return read();
  } catch (const TextError& error) {
    table.fail(key, pointed(text, error));
  }
}

void read_parameters(const ConfigTable& table, Model& model) {
  const auto parameters = table.table_if("parameters");
  if (!parameters) return;
  for (const std::string& name : parameters->keys()) {
    // As a name in the text: what the parser takes for one name and nothing else.
    pointing(*parameters, name, name, [&] {
      const Expression spelt = parse_expression(name);
      if (spelt.kind != Expression::Kind::reference || !spelt.arguments.empty())
        throw TextError(0, "a parameter's name has letters, digits and _");
      return 0;
    });
    if (is_reserved(name)) parameters->fail(name, "the name is taken: it means something in equations");
    model.parameters[name] = parameters->number(name);
  }
}

void read_variables(const ConfigTable& table, std::string_view key, bool resolved, Model& model) {
  for (const std::string& text : table.strings(key)) {
    const Lattice lattice = pointing(table, key, text, [&] {
      Lattice made = make_lattice(parse_declaration(text), model.parameters);
      if (model.find(made.name)) throw TextError(0, fmt::format("{} is declared twice", made.name));
      if (model.parameters.contains(made.name))
        throw TextError(0, fmt::format("{} is a parameter", made.name));
      return made;
    });
    for (std::size_t i = 0; i < lattice.indices.size(); ++i) {
      Lattice alone;
      alone.first = {lattice.first[i]};
      alone.count = {lattice.count[i]};
      alone.edges = {lattice.ring ? Edge::bounded : lattice.edges[i]};
      const auto [known, fresh] = model.index_ranges.try_emplace(lattice.indices[i], alone);
      if (!fresh && (known->second.first != alone.first || known->second.count != alone.count))
        known->second.count = {-1};  // not one range: a sum has to say which
    }
    if (model.full_size > most_points - lattice.size)
      table.fail(key, fmt::format("{} and those before have too many points", lattice.name));
    model.variables.push_back({lattice, resolved, model.full_size});
    model.full_size += lattice.size;
    if (resolved) model.resolved_size += lattice.size;
  }
}

/// The time is a resolved variable, so that whatever advances a state advances it; with a period, its phase is.
std::string time_equations(const ConfigTable& table, const std::vector<Statement>& statements, Model& model) {
  const bool used = std::ranges::any_of(
      statements, [](const Statement& statement) { return mentions(statement.right, "t"); });
  if (!used) {
    if (table.has("period")) table.fail("period", "is that of the time t, which no equation mentions");
    return "";
  }
  const auto add = [&](const char* name) {
    Variable variable;
    variable.lattice.name = name;
    variable.resolved = true;
    variable.offset = model.resolved_size++;
    ++model.full_size;
    model.variables.push_back(std::move(variable));
  };
  if (!table.has("period")) {
    add("t");
    return "\ndt = 1";
  }
  model.parameters["t_period"] = table.number("period", positive);
  add("t_cos");
  add("t_sin");
  return "\ndt_cos = -2*pi/t_period*t_sin\ndt_sin = 2*pi/t_period*t_cos";
}

void read_reductions(const ConfigTable& table, Model& model) {
  const auto reduced = table.table_if("reduced");
  for (const Variable& variable : model.variables) {
    if (variable.resolved) continue;
    const Lattice& lattice = variable.lattice;
    Reduction reduction;
    if (reduced && reduced->has(lattice.name)) {
      reduction.source.text = reduced->holds_list(lattice.name) ? "" : reduced->formula(lattice.name);
      if (reduced->holds_list(lattice.name)) {
        reduction.kind = Reduction::Kind::values;
        reduction.values = reduced->numbers(lattice.name, static_cast<std::size_t>(lattice.size));
      } else if (reduction.source.text == "drop") {
        reduction.kind = Reduction::Kind::values;
        reduction.values = {0};
      } else if (reduction.source.text != "mean") {
        reduction.kind = Reduction::Kind::expression;
        reduction.expression = pointing(*reduced, lattice.name, reduction.source.text,
                                        [&] { return parse_expression(reduction.source.text); });
        reduction.left = {Expression::Kind::reference, 0, lattice.name, {}, 0};
        for (const std::string& index : lattice.indices)
          reduction.left.arguments.push_back({Expression::Kind::reference, 0, index, {}, 0});
      }
    }
    model.reductions[lattice.name] = std::move(reduction);
  }
  if (!reduced) return;
  std::vector<std::string> hidden;
  for (const auto& [name, reduction] : model.reductions) hidden.push_back(name);
  for (const std::string& key : reduced->keys())
    if (!model.reductions.contains(key))
      reduced->fail(key, "is no hidden variable" + suggestion(key, hidden));
  // Each by itself, while we know where its text is.
  const std::vector<double> means(static_cast<std::size_t>(model.full_size));
  for (const Variable& variable : model.variables) {
    if (variable.resolved) continue;
    const Reduction& reduction = model.reductions.at(variable.lattice.name);
    if (reduction.kind != Reduction::Kind::expression) continue;
    pointing(*reduced, variable.lattice.name, reduction.source.text, [&] {
      std::vector<Ring> rings;
      for (const Variable& ring : model.variables) rings.push_back({ring.offset, ring.lattice.size});
      Graph graph(std::move(rings));
      return Builder(model, graph, View::reduced, means)
          .values(reduction.expression, variable.lattice, reduction.left);
    });
  }
}

}  // namespace

Model read_model(const ConfigTable& table) {
  Model model;
  read_parameters(table, model);
  read_variables(table, "resolved", true, model);
  if (model.variables.empty())
    table.fail("resolved", "needs a variable, \"x\" or \"X[k], k = 1..N, cyclic\"");
  model.source = {"equations", table.string("equations")};
  std::string text = model.source.text;
  pointing(table, "equations", text, [&] {
    text += time_equations(table, parse_statements(text), model);
    return 0;
  });
  read_variables(table, "hidden", false, model);
  if (model.full_size == model.resolved_size)
    table.fail("hidden", "needs a variable: without hidden variables there is nothing to close");
  pointing(table, "equations", model.source.text, [&] {
    add_statements(model, text);
    if (model.parameters.contains("t_period")) {
      Definition time;
      time.lattice.name = "t";
      time.statement = {{Expression::Kind::reference, 0, "t", {}, 0},
                        false,
                        parse_expression("t_period/(2*pi)*atan2(t_sin, t_cos)")};
      model.definitions.emplace("t", std::move(time));
    }
    return 0;
  });
  read_reductions(table, model);
  return model;
}

}  // namespace mac::equations
