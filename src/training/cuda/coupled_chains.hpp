// The rollout loss on the device: coupled steps of many chains and their gradient (see training/losses.hpp). Arrays
// (chain, variables): z in double, x and y, the network's input and output, in float.
#pragma once

#include "systems/reduced_equations.hpp"
#include "training/cuda/kernels.hpp"
#include "training/cuda/rollout_problem.hpp"

namespace mac::cuda {

struct KernelName;  // coupling/cuda/written_kernel.hpp

/// The kernels of launch_coupled_step and launch_coupled_adjoint for equations that came as text.
KernelName coupled_step_name(const WrittenEquations& equations);
KernelName coupled_adjoint_name(const WrittenEquations& equations);

/// Windows `first`.. of each model's batch: truth (window, states, d), given (window, states, given), z and x of step 0.
void launch_start_rollouts(const RolloutProblem& problem, const BatchSource& source, const Sample* samples,
                           int models, int batch, int first, double noise, double* truth, float* given,
                           double* z, float* x, cudaStream_t stream);

/// z_next and, unless null, the network's next input; squared errors are added to errors (chain, d), or put
/// there by step 0.
void launch_coupled_step(const ReducedEquations& equations, const RolloutProblem& problem,
                         const CoupledArrays& at, double* z_next, float* x_next, double* errors,
                         cudaStream_t stream);

/// What a model's batch makes of the squared errors of its windows `first`.. (see training/rollout_loss.cpp).
struct WindowLosses {
  int models, batch, first;
  double errors;        // of each window and variable
  const double* sizes;  // (model, batch, d): what root mean squares are divided by; null: mean squares count
  double floor;         // of an error, where they are divided
  double* losses;       // (model, batch, d): parts of the loss
  double* slopes;       // (window, d): dL/d(error) / error
};
void launch_window_losses(const RolloutProblem& problem, const double* errors, const WindowLosses& windows,
                          cudaStream_t stream);

/// The gradient of step s. d_z and d_x: of z_next through all later steps and through the network's next
/// input (both null in the last step). Overwrites d_z_before, and the closure's gradient through this step
/// (d_own) and that of the prediction before (d_previous), (chain, c).
void launch_coupled_adjoint(const ReducedEquations& equations, const RolloutProblem& problem,
                            const CoupledArrays& at, const double* z_next, const double* slopes,
                            const double* d_z, const float* d_x, double* d_z_before, double* d_own,
                            double* d_previous, cudaStream_t stream);

/// d_y of step s: its own part, what step s + 1 left for it (`later`, null in the last step), and in step 0
/// what the chain one state later left.
void launch_output_gradient(const RolloutProblem& problem, int s, const double* d_own, const double* later,
                            const double* d_previous, float* d_y, cudaStream_t stream);

/// (model, row, column, width) in `from` becomes (model, column, row, width) in `to`.
void launch_swap(const float* from, float* to, std::size_t models, std::size_t rows, std::size_t columns,
                 std::size_t width, cudaStream_t stream);

/// to += from.
void launch_add(const float* from, float* to, std::size_t count, cudaStream_t stream);

}  // namespace mac::cuda
