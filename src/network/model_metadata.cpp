#include "network/model_metadata.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/version.hpp>
#include <nlohmann/json.hpp>

namespace mac {

namespace {

using Json = nlohmann::json;

// A file whose numbers mean something else than they did to the first version's readers has the second.
constexpr const char *format_version = "1", *format_version_with_frame = "2";
// Written for every kind: sizes of a Mamba that cannot be chosen, and that a file could not have otherwise.
constexpr std::size_t d_conv = 4;
constexpr std::size_t expand = 2;  // d_inner / d_model

/// Takes known keys out of the metadata one by one; what is left is provenance.
class MetadataReader {
 public:
  explicit MetadataReader(const Safetensors& file) : file_(file.file()), metadata_(file.metadata()) {}

  std::optional<std::string> text(const std::string& key) {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) return std::nullopt;
    return metadata_.extract(found).mapped();
  }

  /// The key, where present, says the same as the tensors.
  void expect(const std::string& key, const std::string& value) {
    const auto found = text(key);
    if (found && *found != value) fail(key, fmt::format("is '{}', the tensors say '{}'", *found, value));
  }

  std::optional<double> positive_number(const std::string& key) {
    const auto found = text(key);
    if (!found) return std::nullopt;
    const Json number = Json::parse(*found, nullptr, false);  // libc++ has no from_chars for it
    const double value = number.is_number() ? number.get<double>() : 0;
    if (!std::isfinite(value) || value <= 0)
      fail(key, fmt::format("is '{}': expected a positive number", *found));
    return value;
  }

  std::optional<std::vector<double>> numbers(const std::string& key, std::size_t count) {
    const auto array = list(key, count, "numbers", [](const Json& value) { return value.is_number(); });
    if (!array) return std::nullopt;
    auto values = array->get<std::vector<double>>();
    if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
      fail(key, "has a number that is not finite");
    return values;
  }

  std::optional<std::vector<std::string>> strings(const std::string& key, std::size_t count) {
    const auto array = list(key, count, "strings", [](const Json& value) { return value.is_string(); });
    if (!array) return std::nullopt;
    return array->get<std::vector<std::string>>();
  }

  /// As many as there are.
  std::vector<std::string> all_strings(const std::string& key) {
    const auto array =
        list(key, std::nullopt, "strings", [](const Json& value) { return value.is_string(); });
    return array ? array->get<std::vector<std::string>>() : std::vector<std::string>{};
  }
  std::vector<int> all_integers(const std::string& key) {
    const auto array = list(key, std::nullopt, "small integers", [](const Json& value) {
      return value.is_number_integer() && std::abs(value.get<double>()) < 1e6;
    });
    return array ? array->get<std::vector<int>>() : std::vector<int>{};
  }

  /// Numbers from 0 to below `end`.
  std::optional<std::vector<std::size_t>> indices(const std::string& key, std::size_t count,
                                                  std::size_t end) {
    const auto array =
        list(key, count, "integers from 0 on", [](const Json& value) { return value.is_number_unsigned(); });
    if (!array) return std::nullopt;
    auto values = array->get<std::vector<std::size_t>>();
    for (const std::size_t value : values)
      if (value >= end) fail(key, fmt::format("has a {}: expected 0 to {}", value, end - 1));
    return values;
  }

  std::map<std::string, std::string> rest() && { return std::move(metadata_); }

  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw Error("{}: metadata '{}' {}", file_, key, what);
  }

 private:
  /// Discarded JSON unless the text is an array without arrays or objects in it: deep nesting would cost many
  /// times the memory of the text.
  static Json parse_flat(const std::string& text) {
    bool nested = false;
    Json array = Json::parse(
        text,
        [&](int depth, Json::parse_event_t, Json&) {
          nested = nested || depth > 1;
          return !nested;
        },
        false);
    return nested ? Json(Json::value_t::discarded) : array;
  }

  template <class IsElement>
  std::optional<Json> list(const std::string& key, std::optional<std::size_t> count, const char* elements,
                           IsElement is_element) {
    const auto found = text(key);
    if (!found) return std::nullopt;
    Json array = parse_flat(*found);
    if (!array.is_array() || !std::ranges::all_of(array, is_element))
      fail(key, fmt::format("is not a JSON array of {}", elements));
    if (count && array.size() != *count)
      fail(key, fmt::format("has {} {}: expected {}", array.size(), elements, *count));
    return array;
  }

  std::string file_;
  std::map<std::string, std::string> metadata_;
};

std::vector<std::pair<const char*, std::string>> shape_entries(const NetworkShape& shape) {
  std::vector<std::pair<const char*, std::string>> entries{
      {"kind", std::string(to_string(shape.kind))}, {"d_in", std::to_string(shape.d_in)},
      {"d_out", std::to_string(shape.d_out)},       {"d_model", std::to_string(shape.d_model)},
      {"n_blocks", std::to_string(shape.n_blocks)}, {"d_state", std::to_string(shape.d_state)},
      {"d_conv", std::to_string(d_conv)},           {"expand", std::to_string(expand)}};
  if (shape.members > 1) entries.emplace_back("members", std::to_string(shape.members));
  if (shape.deviations) entries.emplace_back("deviations", "true");
  return entries;
}

/// All four arrays, or none.
Normalisation read_normalisation(MetadataReader& reader, const NetworkShape& shape,
                                 const NoiseInputs& noise) {
  const std::size_t inputs = shape.d_in - noise.channels;
  const auto input_mean = reader.numbers("input_mean", inputs);
  const auto input_scale = reader.numbers("input_scale", inputs);
  const auto output_mean = reader.numbers("output_mean", shape.d_out);
  const auto output_scale = reader.numbers("output_scale", shape.d_out);
  const int present =
      input_mean.has_value() + input_scale.has_value() + output_mean.has_value() + output_scale.has_value();
  if (present == 0) return Normalisation::identity(shape, noise);
  for (const auto& [key, values] : {std::pair{"input_mean", &input_mean},
                                    {"input_scale", &input_scale},
                                    {"output_mean", &output_mean},
                                    {"output_scale", &output_scale}})
    if (!*values) reader.fail(key, "is missing while the rest of the normalisation is there");
  for (const auto& [key, values] : {std::pair{"input_scale", &input_scale}, {"output_scale", &output_scale}})
    if (std::ranges::any_of(**values, [](double scale) { return scale <= 0 || !std::isfinite(1 / scale); }))
      reader.fail(key, "has a scale that is not positive, or too small to divide by");
  return {*input_mean, *input_scale, *output_mean, *output_scale};
}

/// The bounds all together, or none; average and covariance both, or none.
std::optional<TrainingRange> read_range(MetadataReader& reader, const NetworkShape& shape,
                                        std::size_t inputs) {
  const auto input_low = reader.numbers("input_low", inputs),
             input_high = reader.numbers("input_high", inputs),
             output_low = reader.numbers("output_low", shape.d_out),
             output_high = reader.numbers("output_high", shape.d_out),
             average = reader.numbers("input_average", inputs),
             covariance = reader.numbers("input_covariance", inputs * inputs);
  if (!input_low && !input_high && !output_low && !output_high) return std::nullopt;
  for (const auto& [key, values] : {std::pair{"input_low", &input_low},
                                    {"input_high", &input_high},
                                    {"output_low", &output_low},
                                    {"output_high", &output_high}})
    if (!*values) reader.fail(key, "is missing while the rest of the range is there");
  const auto expect_above = [&](const char* key, const std::vector<double>& low,
                                const std::vector<double>& high) {
    for (std::size_t i = 0; i < low.size(); ++i)
      if (!(low[i] <= high[i])) reader.fail(key, "has a number below the least one");
  };
  expect_above("input_high", *input_low, *input_high);
  expect_above("output_high", *output_low, *output_high);
  if (average.has_value() != covariance.has_value())
    reader.fail(average ? "input_covariance" : "input_average", "is missing while the other is there");
  return TrainingRange{*input_low,
                       *input_high,
                       *output_low,
                       *output_high,
                       average.value_or(std::vector<double>{}),
                       covariance.value_or(std::vector<double>{})};
}

NoiseInputs read_noise(MetadataReader& reader, const NetworkShape& shape) {
  NoiseInputs noise;
  const auto channels = reader.positive_number("noise_channels");
  noise.time = reader.positive_number("noise_time").value_or(0);
  if (shape.deviations && channels != static_cast<double>(shape.d_out))
    reader.fail("noise_channels",
                fmt::format("is not {}, one for each output with a deviation", shape.d_out));
  if (!channels) return noise;
  if (*channels != std::floor(*channels) || *channels >= static_cast<double>(shape.d_in))
    reader.fail("noise_channels",
                fmt::format("is {}: expected a whole number below the {} inputs", *channels, shape.d_in));
  noise.channels = static_cast<std::size_t>(*channels);
  return noise;
}

std::optional<HeldClosure> read_held(MetadataReader& reader) {
  const auto hold = reader.text("hold"), target = reader.text("target");
  if (!hold && !target) return std::nullopt;
  HeldClosure held;
  try {
    if (hold) held.hold = hold_from(*hold);
  } catch (const UsageError& error) {
    reader.fail("hold", fmt::format("is wrong: {}", error.what()));
  }
  try {
    if (target) held.target = target_from(*target);
  } catch (const UsageError& error) {
    reader.fail("target", fmt::format("is wrong: {}", error.what()));
  }
  return held;
}

NetworkInputs read_inputs(MetadataReader& reader, const NetworkShape& shape) {
  NetworkInputs inputs{reader.all_strings("state_inputs"),
                       reader.all_strings("given_inputs"),
                       reader.all_strings("local_of"),
                       {},
                       Frame::none};
  const std::vector<int> ends = reader.all_integers("local_stencil");
  if (ends.size() % 2 != 0 || ends.empty() == inputs.is_local())
    reader.fail("local_stencil", "is not the stencil of local_of: expected from and to of each direction");
  for (std::size_t k = 0; k < ends.size(); k += 2) inputs.stencil.push_back({ends[k], ends[k + 1]});
  if (inputs.state.size() + inputs.given.size() > shape.d_in)
    reader.fail("state_inputs",
                fmt::format("and given_inputs are more than the network's {} inputs", shape.d_in));
  if (const auto frame = reader.text("frame")) {
    if (*frame != to_string(Frame::initial))
      reader.fail("frame", fmt::format("is '{}': expected 'initial'", *frame));
    if (shape.d_out % 2 != 0 || shape.d_in != shape.d_out + inputs.given.size() || !inputs.state.empty() ||
        inputs.is_local())
      reader.fail("frame",
                  "is that of Fourier modes, two numbers each, that the network both reads and closes");
    inputs.frame = Frame::initial;
  }
  return inputs;
}

}  // namespace

void read_metadata(const Safetensors& file, Model& model) {
  MetadataReader reader(file);
  if (const auto found = reader.text("format_version");
      found && *found != format_version && *found != format_version_with_frame)
    reader.fail("format_version",
                fmt::format("is '{}', this program reads '{}' and '{}'; was it written by a newer one?",
                            *found, format_version, format_version_with_frame));
  for (const auto& [key, value] : shape_entries(model.shape)) reader.expect(key, value);
  model.noise = read_noise(reader, model.shape);
  model.normalisation = read_normalisation(reader, model.shape, model.noise);
  model.system = reader.text("system").value_or("");
  model.input_names = reader.strings("input_names", model.input_size()).value_or(std::vector<std::string>{});
  model.output_names = reader.strings("output_names", model.shape.d_out).value_or(std::vector<std::string>{});
  model.inputs = read_inputs(reader, model.shape);
  model.closure_targets = reader.indices("closure_targets", model.shape.d_out, model.input_size())
                              .value_or(std::vector<std::size_t>{});
  model.training_range = read_range(reader, model.shape, model.input_size());
  model.closure_step = reader.positive_number("closure_step");
  if (model.noise.channels > 0 && !model.closure_step)
    reader.fail("closure_step", "is missing, and noise has a time");
  model.held = read_held(reader);
  model.recipe = reader.text("recipe").value_or("");
  model.program = reader.text("program").value_or("");
  model.provenance = std::move(reader).rest();
}

void write_metadata(const Model& model, SafetensorsWriter& writer) {
  for (const auto& [key, value] : model.provenance) writer.set_metadata(key, value);
  const bool framed = model.inputs.frame != Frame::none;
  writer.set_metadata("format_version", framed ? format_version_with_frame : format_version);
  if (framed) writer.set_metadata("frame", std::string(to_string(model.inputs.frame)));
  for (const auto& [key, value] : shape_entries(model.shape)) writer.set_metadata(key, value);

  const Normalisation& normalisation = model.normalisation;
  writer.set_metadata("input_mean", Json(normalisation.input_mean).dump());
  writer.set_metadata("input_scale", Json(normalisation.input_scale).dump());
  writer.set_metadata("output_mean", Json(normalisation.output_mean).dump());
  writer.set_metadata("output_scale", Json(normalisation.output_scale).dump());

  const auto set_unless_empty = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) writer.set_metadata(key, value);
  };
  set_unless_empty("system", model.system);
  if (!model.input_names.empty()) writer.set_metadata("input_names", Json(model.input_names).dump());
  if (!model.output_names.empty()) writer.set_metadata("output_names", Json(model.output_names).dump());
  const auto set_list = [&](const char* key, const auto& values) {
    if (!values.empty()) writer.set_metadata(key, Json(values).dump());
  };
  set_list("state_inputs", model.inputs.state);
  set_list("given_inputs", model.inputs.given);
  set_list("local_of", model.inputs.of);
  std::vector<int> ends;
  for (const StencilRange& range : model.inputs.stencil) ends.insert(ends.end(), {range.from, range.to});
  set_list("local_stencil", ends);
  if (!model.closure_targets.empty())
    writer.set_metadata("closure_targets", Json(model.closure_targets).dump());
  if (const auto& range = model.training_range) {
    writer.set_metadata("input_low", Json(range->input_low).dump());
    writer.set_metadata("input_high", Json(range->input_high).dump());
    writer.set_metadata("output_low", Json(range->output_low).dump());
    writer.set_metadata("output_high", Json(range->output_high).dump());
    if (!range->input_covariance.empty()) {
      writer.set_metadata("input_average", Json(range->input_average).dump());
      writer.set_metadata("input_covariance", Json(range->input_covariance).dump());
    }
  }
  if (model.noise.channels > 0) {
    writer.set_metadata("noise_channels", std::to_string(model.noise.channels));
    if (model.noise.time > 0) writer.set_metadata("noise_time", fmt::format("{}", model.noise.time));
  }
  if (model.closure_step) writer.set_metadata("closure_step", fmt::format("{}", *model.closure_step));
  if (model.held) {
    writer.set_metadata("hold", std::string(to_string(model.held->hold)));
    writer.set_metadata("target", std::string(to_string(model.held->target)));
  }
  set_unless_empty("recipe", model.recipe);
  writer.set_metadata(
      "program", model.program.empty() ? fmt::format("mac {} ({})", version(), commit()) : model.program);
}

}  // namespace mac
