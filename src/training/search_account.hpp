// What a search of recipe = "auto" tried and why it chose as it did, in words: from the JSON that the model keeps, for the
// terminal, the report and the card alike.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mac {

struct SearchAccount {
  /// Of a trial, of no closure, or of the network without memory.
  struct Row {
    bool chosen = false;
    std::string settings, steps, error;
  };
  std::string judged_by;           // what the errors are
  std::vector<std::string> notes;  // a sentence each: the equations, what is learned, what was left out
  std::vector<Row> rows;
  std::string reason;   // why the chosen one was chosen
  std::string warning;  // where nothing beats no closure
};

/// None where nothing could be judged. Searches of earlier versions say less.
std::optional<SearchAccount> account_of(const nlohmann::json& search);

/// As the terminal shows it.
std::string to_text(const SearchAccount& account);

/// An error of free rollouts: a share of the data's size, with lost and stray ones on top.
std::string percent_or_failed(double error);

/// Of an entry of the search's "trials": "mamba, noise 0.05, max_lr 0.004, width 16, state 8".
std::string settings_of(const nlohmann::json& trial);

}  // namespace mac
