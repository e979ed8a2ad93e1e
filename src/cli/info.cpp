// mac info: what a file is and how it came about
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/report.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "io/file_digest.hpp"
#include "io/hdf5.hpp"
#include "io/input_file.hpp"
#include "network/kinds/layer.hpp"

namespace mac::cli {

namespace {

/// What is said about a file, as text and as JSON.
struct Description {
  std::vector<std::pair<std::string, std::string>> rows;  // label, value
  std::string details;                                    // below the rows
  nlohmann::json json;
};

std::string shape_text(const std::vector<std::size_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  while (!result.empty() && (result.back() == ' ' || result.back() == '\n')) result.pop_back();
  return result + "\n";
}

/// Short values become rows, texts of several lines go below.
void describe_entry(Description& description, const std::string& label, const std::string& value) {
  if (value.find('\n') == std::string::npos)
    description.rows.emplace_back(label, value);
  else
    description.details += fmt::format("\n{}\n{}", printable_line(label), indented(value));
}

std::string normalisation_table(const std::string& heading, const std::vector<std::string>& names,
                                const std::vector<double>& mean, const std::vector<double>& scale) {
  std::string table = fmt::format("\n{:<14}{:>14}{:>14}\n", heading, "mean", "scale");
  for (std::size_t i = 0; i < mean.size(); ++i)
    table += fmt::format("  {:<12}{:>14.6g}{:>14.6g}\n",
                         names.empty() ? std::to_string(i) : printable_line(names[i]), mean[i], scale[i]);
  return table;
}

Description describe_model(const Safetensors& file) {
  const Model model = model_from(file);
  const NetworkShape& shape = model.shape;
  Description d;
  d.rows = {{"type", "closure network"},
            {"kind", std::string(to_string(shape.kind))},
            {"inputs", std::to_string(model.input_size())},
            {"outputs", std::to_string(shape.d_out)},
            {"blocks", fmt::format("{} of {} channels", shape.n_blocks, shape.d_model)}};
  if (const NoiseInputs& noise = model.noise; noise.channels > 0)
    d.rows.emplace_back(
        "noise", fmt::format("{} numbers a step, {}", noise.channels,
                             noise.time > 0 ? fmt::format("correlated over {}", noise.time) : "white"));
  if (shape.members > 1) d.rows.emplace_back("members", fmt::format("{}, closures averaged", shape.members));
  for (const DescriptionRow& row : layer_of(shape.kind).description(shape)) d.rows.push_back(row);
  d.rows.emplace_back("parameters", fmt::format("{} ({})", model.parameters.size(), to_string(model.dtype)));
  d.rows.emplace_back("memory", fmt::format("{} numbers", shape.state_size()));
  const auto add = [&](const char* label, const std::string& value) {
    if (!value.empty()) d.rows.emplace_back(label, value);
  };
  add("system", model.system);
  if (model.closure_step) add("closure step", fmt::format("{}", *model.closure_step));
  if (model.held)
    add("coupling",
        fmt::format("hold {}, target {}", to_string(model.held->hold), to_string(model.held->target)));
  if (model.inputs.is_local()) {
    std::vector<std::string> offsets;
    for (const StencilRange& range : model.inputs.stencil)
      offsets.push_back(fmt::format("{} to {}", range.from, range.to));
    add("local", fmt::format("one network for each site of {}, neighbours {}",
                             fmt::join(model.inputs.of, " and "), fmt::join(offsets, ", ")));
  }
  if (model.inputs.frame == Frame::initial)
    add("frame", "sees Fourier modes turned by the phase of the first state");
  if (!model.inputs.is_plain()) add("reads", fmt::format("{}", fmt::join(model.input_names, ", ")));
  if (!model.closure_targets.empty())
    add(model.inputs.is_plain() ? "added to equations" : "added to the equations of inputs",
        fmt::format("{} (from 0)", fmt::join(model.closure_targets, " ")));
  add("recipe", model.recipe);
  add("written by", model.program);

  const Normalisation& n = model.normalisation;
  if (n == Normalisation::identity(shape, model.noise)) {
    add("normalisation", "none");
  } else {
    d.details += normalisation_table("input", model.input_names, n.input_mean, n.input_scale);
    d.details += normalisation_table("output", model.output_names, n.output_mean, n.output_scale);
  }
  for (const auto& [key, value] : model.provenance) describe_entry(d, key, value);

  d.json = {{"type", "model"},
            {"kind", to_string(shape.kind)},
            {"d_in", shape.d_in},
            {"d_out", shape.d_out},
            {"d_model", shape.d_model},
            {"n_blocks", shape.n_blocks},
            {"d_state", shape.d_state},
            {"members", shape.members},
            {"noise_channels", model.noise.channels},
            {"parameters", model.parameters.size()},
            {"dtype", to_string(model.dtype)},
            {"state_size", shape.state_size()},
            {"system", model.system},
            {"input_names", model.input_names},
            {"output_names", model.output_names},
            {"closure_targets", model.closure_targets},
            {"local_of", model.inputs.of},
            {"given_inputs", model.inputs.given},
            {"frame", to_string(model.inputs.frame)},
            {"normalisation",
             {{"input_mean", n.input_mean},
              {"input_scale", n.input_scale},
              {"output_mean", n.output_mean},
              {"output_scale", n.output_scale}}},
            {"recipe", model.recipe},
            {"program", model.program},
            {"provenance", model.provenance}};
  if (model.closure_step) d.json["closure_step"] = *model.closure_step;
  if (model.held) {
    d.json["hold"] = to_string(model.held->hold);
    d.json["target"] = to_string(model.held->target);
  }
  return d;
}

/// A safetensors file that is no network: its tensors.
Description describe_tensors(const Safetensors& file) {
  Description d;
  d.rows = {{"type", "tensors"}};
  d.json = {{"type", "tensors"}, {"metadata", file.metadata()}, {"tensors", nlohmann::json::object()}};
  for (const auto& [key, value] : file.metadata()) describe_entry(d, key, value);
  d.details += "\ntensors\n";
  for (const TensorInfo& tensor : file.tensors()) {
    d.details += fmt::format("  {:<40} {} {}\n", printable_line(tensor.name), to_string(tensor.dtype),
                             shape_text(tensor.shape));
    d.json["tensors"][tensor.name] = {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}};
  }
  return d;
}

void describe_checksum(Description& d, bool is_there) {
  d.rows.emplace_back("checksum", is_there ? "fits the contents" : "none");
  d.json["checksum"] = is_there;
}

Description describe_safetensors(const std::string& path) {
  const Safetensors file = Safetensors::read(path);
  Description d = file.find("input_proj.weight") ? describe_model(file) : describe_tensors(file);
  describe_checksum(d, file.has_checksum());
  return d;
}

/// A data, prediction or rollout file: its root attributes and the arrays of each split.
Description describe_hdf5(const std::string& path) {
  const h5::File file = h5::File::open(path);
  Description d;
  if (!file.has_attribute("/", "mac_kind"))
    throw Error("{}: was not written by mac (no attribute \"mac_kind\")", path);
  d.rows.emplace_back("type", file.string_attribute("/", "mac_kind"));
  d.json["type"] = file.string_attribute("/", "mac_kind");
  for (const char* key :
       {"system", "model", "hold", "target", "data_file", "data_content", "program", "experiment"}) {
    if (!file.has_attribute("/", key)) continue;
    describe_entry(d, key, file.string_attribute("/", key));
    d.json[key] = file.string_attribute("/", key);
  }
  if (file.has_attribute("/", "seed")) {
    d.rows.emplace_back("seed", std::to_string(file.integer_attribute("/", "seed")));
    d.json["seed"] = file.integer_attribute("/", "seed");
  }
  d.json["splits"] = nlohmann::json::object();
  std::string splits;
  for (const std::string& group : file.groups()) {
    splits += fmt::format("\nsplit {}\n", printable_line(group));
    for (const char* name :
         {"time", "resolved", "closure", "closure_mean", "true_resolved", "true_closure"}) {
      const std::string dataset = "/" + group + "/" + name;
      if (!file.has(dataset)) continue;
      const h5::Dataset array = file.dataset(dataset);
      const auto& dims = array.dims();
      const auto variables =
          dims.size() == 3 ? array.strings_attribute("variables") : std::vector<std::string>{};
      splits += fmt::format("  {:<14} {:<16} {}\n", name, shape_text(dims),
                            printable_line(fmt::format("{}", fmt::join(variables, " "))));
      d.json["splits"][group][name] = dims;
    }
  }
  d.details = splits + d.details;
  describe_checksum(d, check_digest(path));
  return d;
}

Description describe(const std::string& path) {
  switch (const FileKind kind = file_kind(path)) {
    case FileKind::hdf5:
      return describe_hdf5(path);
    case FileKind::safetensors:
    case FileKind::unknown:
      return describe_safetensors(path);
    default:
      throw Error("{}: is {}, expected a network (safetensors) or an HDF5 file of mac", path,
                  description(kind));
  }
}

void print(const std::string& path, const Description& description) {
  std::size_t width = 4;
  for (const auto& [label, value] : description.rows) width = std::max(width, printable_line(label).size());
  show("{:<{}}  {}\n", "file", width, printable_line(path));
  for (const auto& [label, value] : description.rows)
    show("{:<{}}  {}\n", printable_line(label), width, printable_line(value));
  show("{}", description.details);
}

}  // namespace

void add_info(CLI::App& program) {
  struct Options {
    Common common;
    std::string file, card;
    bool settings = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("info", "Say what a file is and how it was made");
  command->footer(
      "Examples:\n"
      "  mac info model.safetensors\n"
      "  mac info data.h5 --json -\n"
      "  mac info zoo/burgers-mac.safetensors --card results/burgers.json > zoo/burgers-mac.md\n"
      "  mac info --settings");
  command->add_option("file", options->file, "A network, or an HDF5 file of mac (data, rollout, ...)")
      ->type_name("FILE");
  add_common(*command, options->common, true);
  command
      ->add_option("--card", options->card,
                   "Write the card of a network (Markdown) with its errors from these metrics")
      ->excludes("--json")
      ->type_name("METRICS");
  command
      ->add_flag("--settings", options->settings,
                 "Instead of a file: the settings of an experiment with their defaults (Markdown)")
      ->excludes("--card", "--json", "file");
  command->callback([options] {
    if (options->settings) {
      show("{}", settings_reference());
      return;
    }
    if (options->file.empty()) throw UsageError("file is required");
    if (!options->card.empty()) {
      const std::string name = std::filesystem::path(options->file).filename().string();
      show("{}", model_card(load_model(options->file), name, read_metrics(options->card)));
      return;
    }
    Description description = describe(options->file);
    description.json["file"] = options->file;
    if (!options->common.json.empty()) write_json(options->common.json, description.json);
    if (options->common.json != "-") print(options->file, description);
  });
}

}  // namespace mac::cli
