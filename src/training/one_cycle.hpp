// The one-cycle learning rate of PyTorch's OneCycleLR: up to the maximum over the first fraction of the
// steps, down to almost nothing over the rest, both along half a cosine. beta1 runs the other way. The paper's
// numbers: tab_burgers_training_hyperparameters and its like for the other systems.
#pragma once

#include <cstddef>

namespace mac {

struct OneCycle {
  std::size_t steps = 1;
  double max_lr = 1e-3;
  double warmup_fraction = 0.3;
  double div_factor = 25;         // first rate = max_lr / div_factor
  double final_div_factor = 1e4;  // last rate = first rate / final_div_factor
  bool cycle_momentum = true;     // beta1 from 0.95 to 0.85 and back; otherwise 0.9 throughout

  struct At {
    double lr;
    double beta1;
  };
  At at(std::size_t step) const;  // step = 0 .. steps-1
};

}  // namespace mac
