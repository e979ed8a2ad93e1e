// Which part of the recordings goes into which split, in pieces of one length a split.
#pragma once

#include "data/import/survey.hpp"

namespace mac {

/// `times` times of a segment, from `first` on.
struct Piece {
  std::size_t segment = 0, first = 0, times = 0;
};

struct ImportSplit {
  std::string name;  // train, validation, test
  std::vector<Piece> pieces;
  std::size_t times = 0;  // of each piece
};

/// Notes and warnings go to the survey's.
std::vector<ImportSplit> make_splits(const Recordings& recordings, const ImportPlan& plan, Survey& survey);

}  // namespace mac
