// Several networks as one model: each with its own memory, their closures averaged.
#pragma once

#include <mac/model.hpp>
#include <string>
#include <vector>

namespace mac {

/// The ensemble of networks of one kind and size for the same closure (several seeds, say). It is a model as any other:
/// one file, one state, whose members are stepped together. In its file the members' last layers carry the factor 1/N
/// and the units of the first, so that their outputs are added up.
///
/// `names` are for messages. UsageError naming the first network that does not fit, and what does not.
Model make_ensemble(const std::vector<Model>& networks, const std::vector<std::string>& names);

/// Network m of an ensemble, alone.
Model member_of(const Model& ensemble, std::size_t m);

}  // namespace mac
