#include "network/normaliser.hpp"

#include <mac/model.hpp>

namespace mac {

Normaliser::Normaliser(std::vector<double> mean, std::vector<double> scale)
    : mean_(std::move(mean)), scale_(std::move(scale)), factor_(scale_) {
  for (double& factor : factor_) factor = 1 / factor;
}

std::vector<double> Normaliser::numbers() const {
  std::vector<double> all = mean_;
  for (const std::vector<double>* part : {&scale_, &factor_})
    all.insert(all.end(), part->begin(), part->end());
  return all;
}

Normalisers::Normalisers(const Normalisation& of)
    : input(of.input_mean, of.input_scale), output(of.output_mean, of.output_scale) {}

}  // namespace mac
