#include "systems/equations/initial_states.hpp"

#include <fmt/format.h>

#include <mac/error.hpp>

#include "base/nearest.hpp"
#include "systems/equations/build.hpp"
#include "systems/equations/random_value.hpp"

namespace mac::equations {

namespace {

class Drawn : public InitialCondition {
 public:
  Drawn(std::shared_ptr<const Model> model, Starts starts)
      : model_(std::move(model)), starts_(std::move(starts)) {}

  void sample(std::size_t, RandomStream& random, std::span<double> state) const override {
    for (const Variable& variable : model_->variables) {
      const Start& start = starts_.at(variable.lattice.name);
      for (std::int32_t p = 0; p < variable.lattice.size; ++p) {
        const auto at = static_cast<std::size_t>(variable.offset + p);
        if (!start.numbers.empty()) {
          state[at] = start.numbers[static_cast<std::size_t>(p)];
          continue;
        }
        Here here{*model_, {}, state, variable.offset + p, random};
        const std::vector<long> point = variable.lattice.point(p);
        for (std::size_t i = 0; i < point.size(); ++i) here.index[variable.lattice.indices[i]] = point[i];
        try {
          state[at] = random_value(start.formula, here);
        } catch (const TextError& error) {
          throw UsageError("{}: {}", start.source.key, pointed(start.source.text, error));
        }
      }
    }
  }

 protected:
  const Model& model() const { return *model_; }

 private:
  std::shared_ptr<const Model> model_;
  Starts starts_;
};

/// Given states; what they leave out (hidden variables, the time) is drawn.
class Listed final : public Drawn {
 public:
  Listed(std::shared_ptr<const Model> model, Starts starts, std::vector<std::vector<double>> states,
         std::vector<std::string> labels)
      : Drawn(std::move(model), std::move(starts)), states_(std::move(states)), labels_(std::move(labels)) {}

  void sample(std::size_t index, RandomStream& random, std::span<double> state) const override {
    Drawn::sample(index, random, state);
    std::copy(states_.at(index).begin(), states_.at(index).end(), state.begin());
  }
  std::optional<std::size_t> count() const override { return states_.size(); }
  std::string label(std::size_t index) const override {
    return index < labels_.size() ? labels_[index] : std::string();
  }

 private:
  std::vector<std::vector<double>> states_;
  std::vector<std::string> labels_;
};

}  // namespace

void read_starts(const ConfigTable& table, const Model& model, Starts& starts) {
  for (const std::string& key : table.keys()) {
    if (key == "states" || key == "labels") continue;
    const Variable* variable = model.find(key);
    if (!variable) {
      std::vector<std::string> names;
      for (const Variable& known : model.variables) names.push_back(known.lattice.name);
      table.fail(key, "is no variable" + suggestion(key, names));
    }
    Start start;
    if (table.holds_list(key)) {
      start.numbers = table.numbers(key, static_cast<std::size_t>(variable->lattice.size));
    } else {
      start.source = {fmt::format("{}:{}: {}.{}", table.file(), table.line(), table.path(), key),
                      table.formula(key)};
      try {
        start.formula = parse_expression(start.source.text);
      } catch (const TextError& error) {
        table.fail(key, pointed(start.source.text, error));
      }
    }
    starts[key] = std::move(start);
  }
}

void check_complete(const ConfigTable& table, const Model& model, const Starts& starts) {
  for (const Variable& variable : model.variables)
    if (!starts.contains(variable.lattice.name))
      table.fail("initial", fmt::format("does not say how {0} begins; write {0} = \"normal(0, 1)\", or what "
                                        "it is",
                                        variable.lattice.name));
}

std::unique_ptr<InitialCondition> make_initial(const ConfigTable* split, std::shared_ptr<const Model> model,
                                               Starts starts) {
  if (!split) return std::make_unique<Drawn>(std::move(model), std::move(starts));
  read_starts(*split, *model, starts);
  // One draw now, so that a mistake shows before any work is done.
  {
    std::vector<double> state(static_cast<std::size_t>(model->full_size));
    RandomStream random(0, Purpose::diagnosis, 0);
    Drawn(model, starts).sample(0, random, state);
  }
  if (!split->has("states")) {
    if (split->has("labels")) split->fail("labels", "are for states, which are not given");
    return std::make_unique<Drawn>(std::move(model), std::move(starts));
  }
  std::vector<std::vector<double>> states = split->number_lists("states");
  const auto full = static_cast<std::size_t>(model->full_size),
             resolved = static_cast<std::size_t>(model->resolved_size);
  for (const std::vector<double>& state : states)
    if (state.size() != full && state.size() != resolved)
      split->fail("states", fmt::format("has a state of {} numbers, expected {} (all variables) or {} (the "
                                        "resolved ones)",
                                        state.size(), full, resolved));
  if (states.empty()) split->fail("states", "is empty");
  std::vector<std::string> labels = split->strings_or("labels", {});
  if (!labels.empty() && labels.size() != states.size())
    split->fail("labels", fmt::format("has {} names for {} states", labels.size(), states.size()));
  return std::make_unique<Listed>(std::move(model), std::move(starts), std::move(states), std::move(labels));
}

}  // namespace mac::equations
