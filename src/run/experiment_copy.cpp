#include "run/experiment_copy.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <filesystem>
#include <mac/training_plan.hpp>
#include <map>

namespace mac {

namespace {

/// The byte at a position of the parser, which counts lines and the characters of UTF-8 from 1.
std::size_t offset(const std::string& text, const toml::source_position& position) {
  std::size_t at = 0;
  for (toml::source_index line = 1; line < position.line; ++line) at = text.find('\n', at) + 1;
  const auto continues = [&] { return at < text.size() && (text[at] & 0xC0) == 0x80; };
  for (toml::source_index column = 1; column < position.column; ++column) {
    ++at;
    while (continues()) ++at;
  }
  return at;
}

}  // namespace

std::string text_with_copies(const Experiment& experiment) {
  std::string text = experiment.config.text();
  const toml::table root = toml::parse(text);
  std::map<std::size_t, std::pair<std::size_t, std::string>> replacements;  // from, to, with what
  const auto replace = [&](const toml::node_view<const toml::node>& node, const std::string& path) {
    if (!node) return;
    const toml::source_region& place = node.node()->source();
    replacements[offset(text, place.begin)] = {offset(text, place.end), fmt::format("\"{}\"", path)};
  };
  for (std::size_t i = 0; i < experiment.models.size(); ++i) {
    const ModelPlan& model = experiment.models[i];
    if (model.file) replace(root["models"][i]["file"], "models/" + model_file_name(model));
    if (!model.network || model.network->training.init_file.empty()) continue;
    const toml::node_view<const toml::node> own = root["models"][i]["training"]["init"];
    replace(own ? own : root["training"]["init"],
            std::filesystem::absolute(model.network->training.init_file).lexically_normal().string());
  }
  // From the end: what comes before keeps its place.
  for (auto place = replacements.rbegin(); place != replacements.rend(); ++place)
    text.replace(place->first, place->second.first - place->first, place->second.second);
  return text;
}

}  // namespace mac
