#include "data/provenance.hpp"

#include <mac/error.hpp>
#include <mac/version.hpp>

#include "systems/described.hpp"

namespace mac {

namespace {

// Attribute names, part of the file format.
constexpr const char* kind_key = "mac_kind";
constexpr const char* experiment_key = "experiment";
constexpr const char* description_name = "/system_description";

/// Files of earlier versions name the variables beside each array, and no more.
SystemDescription description_in_arrays(const h5::File& file) {
  SystemDescription description;
  description.name = file.string_attribute("/", "system");
  for (const std::string& group : file.groups()) {
    const auto names = [&](const char* array) {
      const std::string path = fmt::format("/{}/{}", group, array);
      return file.has(path) ? file.dataset(path).strings_attribute("variables") : std::vector<std::string>();
    };
    description.resolved_names = names("resolved");
    description.closure_names = names("closure");
    if (!description.resolved_names.empty()) break;
  }
  description.closure_targets = targets_by_name(description.resolved_names, description.closure_names);
  return description;
}

SystemDescription description_in(const h5::File& file) {
  if (!file.has(description_name)) return description_in_arrays(file);
  const std::vector<std::string> text = file.read_text(description_name);
  if (text.size() != 1) throw Error("{}: {} is not one text", file.path(), description_name);
  return description_from(text.front(), file.path());
}

}  // namespace

void write_provenance(h5::File& file, const std::string& kind, const Experiment& experiment) {
  file.set_attribute("/", kind_key, kind);
  file.set_attribute("/", experiment_key, experiment.config.text());
  file.set_attribute("/", "system", std::string(experiment.system->name()));
  file.set_attribute("/", "seed", experiment.data.seed);
  file.set_attribute("/", "program", fmt::format("mac {} ({})", version(), commit()));
  // A data set, for its length: an attribute ends at 64 KiB.
  file.write_text(description_name, {to_text(describe(*experiment.system))});
}

Experiment read_provenance(const h5::File& file, const std::string& kind) {
  if (!file.has_attribute("/", kind_key))
    throw Error("{}: was not written by mac (no attribute \"{}\")", file.path(), kind_key);
  if (const std::string found = file.string_attribute("/", kind_key); found != kind)
    throw Error("{}: is a {} file, expected a {} file", file.path(), found, kind);
  return Experiment::parse(file.string_attribute("/", experiment_key), file.path() + " (experiment)",
                           description_in(file));
}

}  // namespace mac
