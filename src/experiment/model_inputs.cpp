#include "experiment/model_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>

namespace mac {

namespace {

/// [a, b], or [[a, b], [c, d]] for two directions.
std::vector<StencilRange> read_stencil(const ConfigTable& table) {
  if (!table.has("stencil")) return {{-1, 1}};
  std::vector<std::vector<double>> directions;
  if (table.holds_lists("stencil"))
    directions = table.number_lists("stencil");
  else
    directions = {table.numbers("stencil")};
  std::vector<StencilRange> stencil;
  for (const std::vector<double>& ends : directions) {
    if (ends.size() != 2 || ends[0] != std::floor(ends[0]) || ends[1] != std::floor(ends[1]) ||
        !(ends[0] <= 0 && ends[1] >= 0) || ends[1] - ends[0] > 4096)
      table.fail("stencil",
                 "expected whole numbers [from, to] with from <= 0 <= to, a pair for each direction");
    stencil.push_back({static_cast<int>(ends[0]), static_cast<int>(ends[1])});
  }
  return stencil;
}

}  // namespace

std::vector<std::string> default_given(const DataPlan& data) {
  std::vector<std::string> given = data.input_names();
  const auto train = std::ranges::find(data.splits, "train", &SplitPlan::name);
  if (train == data.splits.end()) return given;
  for (std::size_t i = train->laws.size(); i-- > 0;)  // those of the system come first
    if (!(train->laws[i].low() < train->laws[i].high()))
      given.erase(given.begin() + static_cast<std::ptrdiff_t>(i));
  return given;
}

NetworkInputs read_model_inputs(const ConfigTable& table, std::vector<std::string> given) {
  NetworkInputs inputs;
  inputs.given = std::move(given);
  if (const auto local = table.table_if("local")) {
    inputs.of =
        local->holds_list("of") ? local->strings("of") : std::vector<std::string>{local->string("of")};
    if (inputs.of.empty()) local->fail("of", "needs the name of a lattice");
    inputs.stencil = read_stencil(*local);
  }
  if (const auto own = table.table_if("inputs")) {
    inputs.state = own->strings_or("state", {});
    if (own->has("state") && inputs.state.empty())
      own->fail("state", "is empty; left out, the network reads all resolved variables");
    inputs.given = own->strings_or("given", inputs.given);
  }
  if (table.has("frame")) inputs.frame = frame_from(table.choice("frame", {"none", "initial"}));
  return inputs;
}

InputMap bind_inputs(const NetworkInputs& inputs, const System& system, const DataPlan& data,
                     const ConfigTable& table) {
  try {
    return {inputs, system, data.input_names()};
  } catch (const UsageError& error) {
    const char* const key = inputs.frame != Frame::none                 ? "frame"
                            : inputs.is_local() && inputs.state.empty() ? "local"
                                                                        : "inputs";
    table.fail(key, error.what());
  }
}

}  // namespace mac
