#include "systems/equations/formulas.hpp"

#include <cmath>
#include <mac/error.hpp>
#include <mac/system_family.hpp>

#include "systems/equations/programs.hpp"

namespace mac {

namespace {

/// Numbers of [system] that do not vary.
void add_constants(const ConfigTable& system, equations::Model& model) {
  std::map<std::string, std::string> values = system.values();
  if (system.holds_table("parameters")) values.merge(system.table("parameters").values());
  for (const auto& [name, value] : values)
    if (const auto number = parameter_in(system, name); number && !model.find(name))
      model.parameters[name] = *number;
}

void add_variable(const std::string& name, equations::Model& model) {
  equations::Variable variable;
  variable.lattice.name = name;
  variable.resolved = true;
  variable.offset = model.full_size++;
  model.resolved_size = model.full_size;
  model.variables.push_back(std::move(variable));
}

}  // namespace

struct Formulas::Programs {
  std::vector<equations::Program> all;  // input: t, then the parameters
};

Formulas::Formulas(const ConfigTable& given, const ConfigTable& system,
                   const std::vector<std::string>& parameters) {
  auto programs = std::make_shared<Programs>();
  for (const std::string& name : given.keys()) {
    const std::string text = given.formula(name);
    equations::Model model;  // that of a state which is the time and the parameters
    add_variable("t", model);
    for (const std::string& parameter : parameters) add_variable(parameter, model);
    add_constants(system, model);
    try {
      programs->all.push_back(equations::scalar_program(model, {equations::parse_expression(text)}));
    } catch (const equations::TextError& error) {
      given.fail(name, equations::pointed(text, error));
    }
    names_.push_back(name);
    texts_.push_back(text);
  }
  programs_ = std::move(programs);
}

void Formulas::evaluate(std::span<const double> times, std::span<const double> parameters, double* out,
                        std::size_t stride) const {
  std::vector<double> input(1 + parameters.size());
  std::copy(parameters.begin(), parameters.end(), input.begin() + 1);
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const equations::Program& program = programs_->all[k];
    std::vector<double> work(program.work_size());
    program.prepare(work.data());
    for (std::size_t i = 0; i < times.size(); ++i) {
      input[0] = times[i];
      program.run(input.data(), out + i * stride + k, work.data());
      if (!std::isfinite(out[i * stride + k]))
        throw UsageError("the given {} = \"{}\" is {} at t = {:.17g}", names_[k], texts_[k],
                         out[i * stride + k], times[i]);
    }
  }
}

}  // namespace mac
