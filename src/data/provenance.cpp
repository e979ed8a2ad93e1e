#include "data/provenance.hpp"

#include <mac/error.hpp>
#include <mac/version.hpp>

namespace mac {

namespace {

// Attribute names, part of the file format.
constexpr const char* kind_key = "mac_kind";
constexpr const char* experiment_key = "experiment";

}  // namespace

void write_provenance(h5::File& file, const std::string& kind, const Experiment& experiment) {
  file.set_attribute("/", kind_key, kind);
  file.set_attribute("/", experiment_key, experiment.config.text());
  file.set_attribute("/", "system", std::string(experiment.system->name()));
  file.set_attribute("/", "seed", experiment.data.seed);
  file.set_attribute("/", "program", fmt::format("mac {} ({})", version(), commit()));
}

Experiment read_provenance(const h5::File& file, const std::string& kind) {
  if (!file.has_attribute("/", kind_key))
    throw Error("{}: was not written by mac (no attribute \"{}\")", file.path(), kind_key);
  if (const std::string found = file.string_attribute("/", kind_key); found != kind)
    throw Error("{}: is a {} file, expected a {} file", file.path(), found, kind);
  return Experiment::parse(file.string_attribute("/", experiment_key), file.path() + " (experiment)");
}

}  // namespace mac
