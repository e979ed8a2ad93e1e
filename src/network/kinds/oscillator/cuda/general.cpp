#include "network/kinds/oscillator/cuda/general.hpp"

#include "network/kinds/oscillator/layer.hpp"
#include "network/selective/cuda/general_layer.hpp"

namespace mac::oscillator {

template <class T>
std::unique_ptr<cuda::GeneralLayer<T>> make_general_layer(const NetworkShape& shape) {
  return selective::make_general_layer<T>(
      shape, Sizes(shape),
      {&scan_forward<T>, &scan_backward<T>, &scan_steps_forward<T>, &scan_steps_backward<T>},
      2);  // A_log, omega_log
}

template std::unique_ptr<cuda::GeneralLayer<float>> make_general_layer(const NetworkShape& shape);
template std::unique_ptr<cuda::GeneralLayer<double>> make_general_layer(const NetworkShape& shape);

}  // namespace mac::oscillator
