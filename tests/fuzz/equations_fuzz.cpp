// Any bytes as equations, as a declaration and as an initial state: whatever they are, there is an error with a
// place in the text, or a program that runs forwards and backwards within its memory.
#include <cstdint>
#include <cstdlib>
#include <mac/random.hpp>
#include <string>

#include "systems/equations/build.hpp"
#include "systems/equations/programs.hpp"
#include "systems/equations/random_value.hpp"

namespace mac::equations {
namespace {

void declare(Model& model, const char* text, bool resolved) {
  const Lattice lattice = make_lattice(parse_declaration(text), model.parameters);
  for (std::size_t i = 0; i < lattice.indices.size(); ++i) {
    Lattice alone;
    alone.first = {lattice.first[i]};
    alone.count = {lattice.count[i]};
    alone.edges = {lattice.edges[i]};
    model.index_ranges.emplace(lattice.indices[i], alone);
  }
  model.variables.push_back({lattice, resolved, model.full_size});
  model.full_size += lattice.size;
  if (resolved) model.resolved_size += lattice.size;
}

Model variables() {
  Model model;
  model.parameters = {{"a", 2.5}, {"N", 5}};
  model.work_allowed = 20'000;  // what nests sums takes a second otherwise, and few texts would be tried
  declare(model, "x", true);
  declare(model, "u[i], i = 1..N, cyclic", true);
  declare(model, "v[j], j = 0..3, zero", true);
  declare(model, "w[i,j], i = 1..N, j = 1..2, ring", false);
  declare(model, "q[k], k = 1..3, mirror", false);
  model.reductions["w"] = {};
  model.reductions["q"].kind = Reduction::Kind::values;
  model.reductions["q"].values = {0.5};
  return model;
}

void run(const std::string& text) {
  Model model = variables();
  add_statements(model, text);
  const auto targets = closure_targets(model);
  const std::vector<double> means(static_cast<std::size_t>(model.full_size), 0.25);
  const auto evaluate = [&](const Program& program, bool gradient) {
    std::vector<double> work(2 * program.work_size()), in(program.input_size(), 0.5),
        out(program.output_size()), back(in.size());
    program.prepare(work.data());
    gradient ? program.add_gradient(in.data(), out.data(), back.data(), work.data())
             : program.run(in.data(), out.data(), work.data());
  };
  evaluate(full_program(model, targets, means, true), false);
  evaluate(reduced_program(model, means, false), false);
  evaluate(reduced_program(model, means, true), true);
}

void draw(const std::string& text) {
  const Model model = variables();
  const std::vector<double> state(static_cast<std::size_t>(model.full_size));
  RandomStream random(1, Purpose::diagnosis, 0);
  Here here{model, {{"i", 2}}, state, 3, random};
  here.work = most_terms - 20'000;
  const Expression formula = parse_expression(text);
  random_value(formula, here);
}

}  // namespace
}  // namespace mac::equations

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mac::equations;
  if (size == 0 || size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0:
      case 1:
        run(text + "\ndx = x; du[i] = -u[i]; dv[j] = 0; dw[i,j] = 0; dq[k] = x");
        break;
      case 2:
        make_lattice(parse_declaration(text), {{"N", 5}});
        break;
      default:
        draw(text);
    }
  } catch (const TextError& error) {
    if (error.at > size + 100) std::abort();  // a place outside the text
    pointed(text, error);
  }
  return 0;
}
