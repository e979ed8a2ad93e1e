#include "report/style.hpp"

#include <algorithm>
#include <array>
#include <mac/verdict.hpp>
#include <map>

namespace mac::report {

namespace {

const std::map<std::string, LineStyle, std::less<>> known{
    {std::string(truth), {std::string(text_colour), {}, 2.2}},
    {"mac", {"#d55e00", {6, 2}, 1.6}},
    {"gru", {"#0072b2", {3, 2}, 1.6}},
    {"markov", {"#009e73", {6, 2, 1, 2}, 1.6}},
    {"wilks", {"#cc79a7", {8, 2, 2, 2, 2, 2}, 1.6}},
    {"linear_memory", {"#e69f00", {10, 3}, 1.6}},
    {"cubic_memory", {"#56b4e9", {4, 1.5, 1, 1.5}, 1.6}},
    {"polynomial", {"#a6761d", {2, 2}, 1.6}},
    {"exact", {"#808080", {1, 2}, 1.6}},
    {"training range", {"#808080", {3, 3}, 1.6}},
};

// For models the paper has not: other colours, other dashes.
const std::array<LineStyle, 4> spare{{{"#7570b3", {5, 1}, 1.6},
                                      {"#66a61e", {3, 1, 1, 1}, 1.6},
                                      {"#e7298a", {7, 1, 1, 1}, 1.6},
                                      {"#332288", {4, 4}, 1.6}}};

const std::map<std::string, std::string, std::less<>> letters{
    {"phi", "φ"}, {"psi", "ψ"}, {"omega", "ω"}, {"alpha", "α"}, {"theta", "θ"}};

std::string letter(std::string_view name) {
  const auto found = letters.find(name);
  return found == letters.end() ? std::string(name) : found->second;
}

}  // namespace

LineStyle style_of(std::string_view model) {
  if (const auto found = known.find(model); found != known.end()) return found->second;
  if (is_floor(model)) {
    LineStyle style = known.at("exact");
    if (model != "exact") style.dash = {1, 4};
    return style;
  }
  std::size_t sum = 0;
  for (const char c : model) sum = sum * 31 + static_cast<unsigned char>(c);
  return spare[sum % spare.size()];
}

std::string symbol(std::string_view variable) {
  if (const std::size_t bar = variable.find('_'); bar != std::string_view::npos)
    return symbol(variable.substr(0, bar)) + " (" + symbol(variable.substr(bar + 1)) + ")";
  const auto digits = std::ranges::find_if(variable, [](char c) { return c >= '0' && c <= '9'; });
  std::string text = letter({variable.begin(), digits});
  for (auto c = digits; c != variable.end(); ++c)
    text += *c >= '0' && *c <= '9' ? std::string("\xe2\x82") + static_cast<char>(0x80 + (*c - '0'))  // ₀..₉
                                   : std::string(1, *c);
  return text;
}

}  // namespace mac::report
