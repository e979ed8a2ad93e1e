#include "network/kinds/gru/cuda/general.hpp"

#include "network/cuda/general/recurrent_layer.hpp"

namespace mac::gru {

template <class T>
std::unique_ptr<cuda::GeneralLayer<T>> make_general_layer(const NetworkShape& shape) {
  return cuda::make_recurrent_layer(shape, recurrence_kernels<T>());
}

template std::unique_ptr<cuda::GeneralLayer<float>> make_general_layer(const NetworkShape& shape);
template std::unique_ptr<cuda::GeneralLayer<double>> make_general_layer(const NetworkShape& shape);

}  // namespace mac::gru
