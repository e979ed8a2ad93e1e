// The tables of the paper.
#pragma once

#include <mac/evaluation.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mac {

/// data/paper_values.json, as it was when the library was built.
extern const char* const paper_values_json;

struct PaperTable {
  std::string table, label;  // "Table 1", "tab_burgers_interp_resolved"
  std::string system, split, quantity, interval;
  std::map<std::pair<std::string, std::string>, MeanStd> cells;  // of model and variable, as fractions
};
const std::vector<PaperTable>& paper_tables();

}  // namespace mac
