#include "run/experiment_copy.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <mac/training_plan.hpp>

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
  // From the end: what comes before keeps its place.
  for (std::size_t i = experiment.models.size(); i-- > 0;) {
    if (!experiment.models[i].file) continue;
    const toml::source_region& file = root["models"][i]["file"].node()->source();
    const std::size_t begin = offset(text, file.begin), end = offset(text, file.end);
    text.replace(begin, end - begin, fmt::format("\"models/{}\"", model_file_name(experiment.models[i])));
  }
  return text;
}

}  // namespace mac
