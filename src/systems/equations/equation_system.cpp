// A system whose equations are text in the experiment, [system] kind = "equations":
//
//   dX[k] = -X[k-1]*(X[k-2] - X[k+1]) - X[k] + F - h*c/b*sum(j, Y[k,j])
//
// The text becomes a graph of operations on whole lattices (graph.hpp), the graph a program (program.hpp) that
// is run for each evaluation and backwards for its gradient. The closure of a resolved equation is what the
// hidden variables add to it beyond the reduced model.
#include "systems/equations/equation_system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mac/config.hpp>
#include <mac/error.hpp>
#include <mac/linear_part.hpp>
#include <mac/random.hpp>
#include <mac/rk4_solver.hpp>
#include <mutex>

#include "systems/equations/initial_states.hpp"
#include "systems/equations/means.hpp"
#include "systems/equations/programs.hpp"
#include "systems/equations/read_model.hpp"
#include "systems/reduced_equations.hpp"
#include "systems/symmetries.hpp"

namespace mac {

namespace equations {

namespace {

constexpr const char* means_key = "mean";  // among the constants that files keep

/// This thread's work space for a program, among those it used last.
double* known_scratch(const Program& program) {
  struct Room {
    std::uint64_t of = 0;
    WorkSpace numbers;
  };
  constexpr std::size_t rooms = 4;  // a training goes to and fro between rates and their gradient
  thread_local Room room[rooms];
  thread_local std::size_t oldest = 0;
  for (Room& known : room)
    if (known.of == program.id()) return known.numbers.data();
  Room& fresh = room[oldest++ % rooms];
  fresh.of = 0;
  fresh.numbers = WorkSpace(2 * program.work_size());
  program.prepare(fresh.numbers.data());
  fresh.of = program.id();
  return fresh.numbers.data();
}

/// This thread's work space for a program; evaluations do not nest.
double* scratch(const Program& program) {
  // The last one again without a search: an evaluation of few variables takes some ten nanoseconds.
  thread_local constinit std::uint64_t last_id = 0;
  thread_local constinit double* last = nullptr;
  if (last_id != program.id()) {
    last_id = 0;
    last = known_scratch(program);
    last_id = program.id();
  }
  return last;
}

/// R(z) and C, one behind the other.
class WithClosure {
 public:
  WithClosure(std::shared_ptr<const Program> program, std::size_t resolved_size)
      : program_(std::move(program)), resolved_size_(resolved_size), work_(program_->work_size()) {
    program_->prepare(work_.data());
  }

  void operator()(const double* z, double* rate, double* /*closure: behind rate*/) {
    program_->run(z, rate, work_.data());
  }
  void resolved(const double* z, double* y) const { std::copy_n(z, resolved_size_, y); }

 private:
  std::shared_ptr<const Program> program_;
  std::size_t resolved_size_;
  WorkSpace work_;
};

struct Quantity {
  std::string name;
  bool conserved = false;
};

class EquationSystem final : public System, public LinearPart {
 public:
  EquationSystem(const ConfigTable& table, const SystemConstants* constants)
      : name_(table.string_or("name", "equations")),
        time_unit_(table.string_or("time_unit", "1")),
        model_(std::make_shared<Model>(read_model(table))),
        warmup_steps_(static_cast<std::size_t>(table.integer_or("warmup_steps", 0, 0, 1'000'000'000))) {
    check_name(table);
    try {
      targets_ = equations::closure_targets(*model_);
      if (needs_means()) {
        reduced_program(*model_, std::vector<double>(full_size()), false);  // what is wrong with it shows now
        if (constants && constants->contains(means_key)) take_means(constants->at(means_key), table);
      } else {
        reduced_once();
      }
    } catch (const TextError& error) {
      table.fail("equations", pointed(model_->source.text, error));
    }
    if (targets_.empty())
      table.fail("equations",
                 "no equation of a resolved variable mentions a hidden one: there is nothing to close");
    for (const Variable& variable : model_->variables)
      for (std::int32_t p = 0; variable.resolved && p < variable.lattice.size; ++p)
        resolved_names_.push_back(variable.lattice.name_of(p));
    for (const std::size_t target : targets_) closure_names_.push_back("C_" + resolved_names_[target]);
    check_distinct(table);
    read_lattices(table);
    read_initial(table);
    read_diagnostics(table);
    read_symmetries(table);
  }

  std::string_view name() const override { return name_; }
  std::string_view time_unit() const override { return time_unit_; }
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return targets_; }
  std::vector<Symmetry> symmetries() const override { return symmetries_; }
  std::size_t fourier_modes() const override { return modes_of(symmetries_, resolved_size()); }
  std::vector<mac::Lattice> lattices() const override { return lattices_; }
  SystemConstants constants() const override {
    return needs_means() ? SystemConstants{{means_key, means()}} : SystemConstants();
  }

  void reduced_rhs(const double* y, double* dydt) const override {
    const Program& program = reduced_once().rates;
    program.run(y, dydt, scratch(program));
  }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    const Program& program = reduced_once().kept;
    program.add_gradient(y, adjoint, grad_y, scratch(program));
  }

  /// The linear terms, which are the derivatives at 0. Those of what has no derivative there are left to the rest, as
  /// is the clock, which is not stiff; of equations without linear terms there is nothing.
  std::vector<double> linear_part() const override {
    const std::size_t d = resolved_size();
    std::vector<double> y(d), unit(d), linear(d * d);
    std::vector<bool> clock(d);
    for (std::size_t v = 0; v < d; ++v) {
      const std::string& name = resolved_names_[v];
      clock[v] = name == "t" || name == "t_cos" || name == "t_sin";
      if (name == "t_cos") y[v] = 1;
    }
    for (std::size_t i = 0; i < d; ++i) {
      if (clock[i]) continue;
      unit[i] = 1;
      reduced_rhs_vjp(y.data(), unit.data(), linear.data() + i * d);
      unit[i] = 0;
      for (std::size_t j = 0; j < d; ++j)
        if (clock[j] || !std::isfinite(linear[i * d + j])) linear[i * d + j] = 0;
    }
    if (std::ranges::all_of(linear, [](double value) { return value == 0; })) return {};
    return linear;
  }

  /// Found once, as far as that goes: the means may take a simulation.
  std::optional<ReducedEquations> reduced_equations() const override {
    std::call_once(code_made_, [this] {
      if (auto code = reduced_code(*model_, means()))
        code_ = std::make_shared<const std::string>(*std::move(code));
    });
    if (!code_) return std::nullopt;
    return ReducedEquations{WrittenEquations{resolved_size(), code_}};
  }

  std::size_t full_size() const override { return static_cast<std::size_t>(model_->full_size); }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    std::call_once(full_made_, [this] {
      full_ = std::make_shared<Program>(full_program(*model_, targets_, means(), true));
    });
    return std::make_unique<Rk4Solver<WithClosure>>(*this, dt, WithClosure(full_, resolved_size()));
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    return make_initial(initial, model_, starts_);
  }
  std::size_t warmup_steps() const override { return warmup_steps_; }
  std::vector<Diagnostic> diagnostics(std::span<const double> full_state) const override {
    if (quantities_.empty()) return {};
    std::vector<double> values(quantities_.size());
    diagnostics_->run(full_state.data(), values.data(), scratch(*diagnostics_));
    std::vector<Diagnostic> result;
    for (std::size_t i = 0; i < values.size(); ++i)
      result.push_back({quantities_[i].name, values[i], quantities_[i].conserved});
    return result;
  }

 private:
  struct Reduced {
    Program rates, kept;
  };

  void check_name(const ConfigTable& table) const {
    for (const std::string& taken : system_names())
      if (name_ == taken)
        table.fail("name", fmt::format("\"{}\" is a system of the program; say another", taken));
    if (name_.empty()) table.fail("name", "is empty");
  }

  void check_distinct(const ConfigTable& table) const {
    std::vector<std::string> names = resolved_names_;  // millions of them, perhaps
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) table.fail("resolved", fmt::format("two variables would be called {}", *twice));
  }

  // ---- the hidden variables' means, found when first needed

  bool needs_means() const {
    return std::ranges::any_of(model_->reductions,
                               [](const auto& entry) { return entry.second.kind == Reduction::Kind::mean; });
  }
  void take_means(const std::vector<double>& stored, const ConfigTable& table) {
    if (stored.size() != full_size() - static_cast<std::size_t>(model_->resolved_size))
      table.fail("hidden", fmt::format("has {} numbers, the file holds the means of {}",
                                       model_->full_size - model_->resolved_size, stored.size()));
    std::call_once(means_made_, [&] { means_ = stored; });
  }
  const std::vector<double>& means() const {
    std::call_once(means_made_, [this] {
      if (needs_means()) means_ = find_means();
    });
    return means_;
  }
  std::vector<double> find_means() const {
    const Program rates = full_program(*model_, targets_, {}, false);
    const std::vector<double> all = state_means(rates, *make_initial(nullptr, model_, starts_), name_);
    std::vector<double> hidden(all.begin() + model_->resolved_size, all.end());
    const bool alike = std::ranges::any_of(symmetries_, [](const Symmetry& symmetry) {
      return symmetry.kind == Symmetry::Kind::cyclic_shift;  // sites that are alike have one mean
    });
    for (const Variable& variable : model_->variables) {
      if (variable.resolved) continue;
      const Lattice& lattice = variable.lattice;
      double* const values = hidden.data() + (variable.offset - model_->resolved_size);
      const auto size = static_cast<std::size_t>(lattice.size);
      const std::size_t sites =
          alike && !lattice.count.empty() ? static_cast<std::size_t>(lattice.count[0]) : 1;
      for (std::size_t i = 0; i < size / sites; ++i) {
        double mean = 0;
        for (std::size_t s = 0; s < sites; ++s) mean += values[s * (size / sites) + i];
        for (std::size_t s = 0; s < sites; ++s)
          values[s * (size / sites) + i] = mean / static_cast<double>(sites);
      }
    }
    return hidden;
  }
  const Reduced& reduced_once() const {
    if (const Reduced* const made = reduced_ready_.load(std::memory_order_acquire)) return *made;
    std::call_once(reduced_made_, [this] {
      reduced_ = std::make_unique<Reduced>(
          Reduced{reduced_program(*model_, means(), false), reduced_program(*model_, means(), true)});
      reduced_ready_.store(reduced_.get(), std::memory_order_release);
    });
    return *reduced_;
  }

  // ---- what else the table says

  /// Resolved variables with one to three indices, of which each has its own edges.
  void read_lattices(const ConfigTable& table) {
    for (const std::string& text : table.strings("resolved")) {
      const Declaration declaration = parse_declaration(text);
      const Variable& variable = *model_->find(declaration.name);
      const Lattice& lattice = variable.lattice;
      if (lattice.indices.empty() || lattice.indices.size() > 3 || lattice.ring) continue;
      mac::Lattice made;
      made.name = lattice.name;
      for (std::size_t i = 0; i < lattice.indices.size(); ++i) {
        made.extents.push_back(static_cast<std::size_t>(lattice.count[i]));
        made.edges.push_back(edge_of(lattice.edges[i]));
        for (const auto& [parameter, value] : model_->parameters)
          for (const Expression* end : {&declaration.indices[i].first, &declaration.indices[i].last})
            if (mentions(*end, parameter)) made.length_keys.push_back("parameters." + parameter);
      }
      for (std::int32_t p = 0; p < lattice.size; ++p)
        made.variables.push_back(static_cast<std::size_t>(variable.offset + p));
      lattices_.push_back(std::move(made));
    }
  }
  static mac::Lattice::Edge edge_of(Edge edge) {
    switch (edge) {
      case Edge::cyclic:
        return mac::Lattice::Edge::periodic;
      case Edge::zero:
        return mac::Lattice::Edge::zero;
      case Edge::mirror:
        return mac::Lattice::Edge::mirror;
      case Edge::bounded:
        break;
    }
    return mac::Lattice::Edge::nearest;
  }

  void read_initial(const ConfigTable& table) {
    Expression zero;
    if (model_->find("t")) starts_["t"] = {zero, {}, {}};
    if (model_->find("t_cos")) {
      starts_["t_cos"] = {zero, {}, {1}};
      starts_["t_sin"] = {zero, {}, {0}};
    }
    const auto initial = table.table_if("initial");
    if (initial) read_starts(*initial, *model_, starts_);
    check_complete(table, *model_, starts_);
    std::vector<double> state(full_size());
    RandomStream random(0, Purpose::diagnosis, 0);
    make_initial(nullptr, model_, starts_)->sample(0, random, state);  // shows a mistake now
  }

  void read_diagnostics(const ConfigTable& table) {
    const auto diagnostics = table.table_if("diagnostics");
    if (!diagnostics) return;
    std::vector<Expression> expressions;
    for (const std::string& key : diagnostics->keys()) {
      Quantity quantity{key, false};
      std::string text;
      if (diagnostics->holds_table(key)) {
        const ConfigTable entry = diagnostics->table(key);
        text = entry.formula("value");
        quantity.conserved = entry.boolean_or("conserved", false);
      } else {
        text = diagnostics->formula(key);
      }
      try {
        expressions.push_back(parse_expression(text));
        scalar_program(*model_, {expressions.back()});
      } catch (const TextError& error) {
        diagnostics->fail(key, pointed(text, error));
      }
      quantities_.push_back(std::move(quantity));
    }
    if (!quantities_.empty()) diagnostics_ = std::make_unique<Program>(scalar_program(*model_, expressions));
  }

  void read_symmetries(const ConfigTable& table) {
    symmetries_ = mac::read_symmetries(table);
    for (const Symmetry& symmetry : symmetries_)
      if (const auto reason = why_not(symmetry))
        table.fail("symmetries", fmt::format("{} does not fit: {}", name_of(symmetry.kind), *reason));
  }

  std::optional<std::string> why_not(Symmetry symmetry) const {
    const bool ring = symmetry.kind == Symmetry::Kind::cyclic_shift;
    std::size_t resolved = 0;
    for (const Variable& variable : model_->variables) resolved += variable.resolved ? 1 : 0;
    if (ring && (resolved != 1 || model_->variables.front().lattice.indices.size() != 1))
      return "it is for one resolved variable with one index";
    // A ring's sites have one mean, 0 here. What other symmetries move has a mean that they do not, unless it is 0.
    std::vector<double> means(full_size());
    RandomStream random(0, Purpose::diagnosis, 0);
    if (!ring)
      for (double& mean : means) mean = random.normal();
    const Program program = reduced_program(*model_, means, false);
    auto reason = mac::why_not(symmetry, resolved_names_, targets_, [&](const double* y, double* rate) {
      program.run(y, rate, scratch(program));
    });
    if (reason && !ring && needs_means())
      *reason += "; a hidden variable that the symmetry moves has to be out of the reduced model, \"drop\"";
    return reason;
  }

  std::string name_, time_unit_;
  std::shared_ptr<Model> model_;
  std::size_t warmup_steps_;
  std::vector<std::size_t> targets_;
  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<Symmetry> symmetries_;
  std::vector<mac::Lattice> lattices_;
  Starts starts_;
  std::vector<Quantity> quantities_;
  std::unique_ptr<Program> diagnostics_;
  mutable std::once_flag means_made_, reduced_made_, full_made_, code_made_;
  mutable std::vector<double> means_;
  mutable std::unique_ptr<Reduced> reduced_;
  mutable std::atomic<const Reduced*> reduced_ready_ =
      nullptr;  // call_once alone costs as much as a small model
  mutable std::shared_ptr<Program> full_;
  mutable std::shared_ptr<const std::string> code_;
};

}  // namespace

}  // namespace equations

std::unique_ptr<System> make_equations(const ConfigTable& table, const SystemConstants* constants) {
  return std::make_unique<equations::EquationSystem>(table, constants);
}

}  // namespace mac
