#include "report/search_table.hpp"

#include <mac/error.hpp>
#include <nlohmann/json.hpp>

namespace mac::report {

std::optional<SearchAccount> search_of(const Model& model) {
  const auto found = model.provenance.find("search");
  if (found == model.provenance.end()) return std::nullopt;
  try {
    return account_of(nlohmann::json::parse(found->second));
  } catch (const nlohmann::json::exception& error) {
    throw Error("the metadata \"search\" of the model are not what recipe = \"auto\" writes: {}",
                error.what());
  }
}

Table search_table(const SearchAccount& account) {
  Table table{
      "Trials of recipe auto: errors of " + account.judged_by, {"", "settings", "steps", "error"}, {}};
  for (const SearchAccount::Row& row : account.rows)
    table.rows.push_back({row.chosen ? "chosen" : "", row.settings, row.steps, row.error});
  return table;
}

}  // namespace mac::report
