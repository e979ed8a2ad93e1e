// ETDRK4 (integrators/etdrk4.hpp) for the coupled step of a system that declares the linear part L of its reduced
// equations, any matrix:
//
//   dy/dt = L y + N(y) + C,   N(y) = R^(y) - L y
//
//   n_v = N(v) + C_0     a = E2 v + Q n_v                  n_a = N(a) + C_1     b = E2 v + Q n_a
//   n_b = N(b) + C_2     c = E2 a + Q (2 n_b - n_v)        n_c = N(c) + C_3
//   next = E v + F1 n_v + F2 (n_a + n_b) + F3 n_c
//
//   E = phi_0(hL), E2 = phi_0(hL/2), Q = h/2 phi_1(hL/2), F1 = h (phi_1 - 3 phi_2 + 4 phi_3),
//   F2 = h (2 phi_2 - 4 phi_3), F3 = h (4 phi_3 - phi_2)                              phi_k: matrix_phi.hpp
//
// The stages lie at the fractions 0, 1/2, 1/2, 1 of the step, as those of RK4, and so does the closure's hold.
#pragma once

#include <mac/held_rk4.hpp>
#include <mac/system.hpp>
#include <vector>

namespace mac {

class ExponentialStep {
 public:
  /// Steps of length h. Throws UsageError if the system declares no linear part.
  ExponentialStep(const System& system, double h, std::size_t columns);

  /// Advances y (columns, d); closure_at(i, y_i) gives the StageClosure, as in held_rk4.
  template <class ClosureAt>
  void step(ClosureAt&& closure_at, double* y) {
    compute_stages(closure_at, y);
    finish(y);
  }

  /// v, a, b, c and the rates n of the step that begins at y.
  template <class ClosureAt>
  void compute_stages(ClosureAt&& closure_at, const double* y) {
    for (std::size_t i = 0; i < held_rk4::stages; ++i) {
      stage_state(i, y);
      rate(i);
      add_closure(i, closure_at(i, static_cast<const double*>(state(i))));
    }
  }

  /// From d_next *adds* to d_y, d_closure and d_previous, as held_rk4::adjoint does, after compute_stages.
  template <class ShareAt>
  void adjoint(ShareAt&& share_at, const double* d_next, double* d_y, double* d_closure, double* d_previous) {
    begin_adjoint(d_next, d_y);
    for (std::size_t i = held_rk4::stages; i-- > 0;) {
      add_closure_gradient(i, share_at(i), d_closure, d_previous);
      stage_adjoint(i, d_y);
    }
  }

 private:
  /// (d, d), both ways, so that a product and the transposed one run along neighbouring numbers.
  struct Matrix {
    std::vector<double> by_columns, by_rows;
  };
  /// The entries that are not zero, row after row: the linear part of a field has few.
  struct SparseMatrix {
    struct Entry {
      std::size_t row, column;
      double value;
    };
    std::vector<Entry> entries;
  };

  double* state(std::size_t i) { return states_.data() + i * size_; }
  double* n(std::size_t i) { return rates_.data() + i * size_; }
  double* d_state(std::size_t i) { return d_states_.data() + i * size_; }
  double* d_n(std::size_t i) { return d_rates_.data() + i * size_; }

  /// out += factor M x of every column; with M transposed where the name says so.
  void add(const Matrix& m, double factor, const double* x, double* out) const;
  void add_transposed(const Matrix& m, double factor, const double* x, double* out);
  void subtract(const SparseMatrix& m, const double* x, double* out) const;
  void subtract_transposed(const SparseMatrix& m, const double* x, double* out);

  void stage_state(std::size_t i, const double* y);
  void rate(std::size_t i);
  void add_closure(std::size_t i, const held_rk4::StageClosure& at);
  void finish(double* y) const;
  void begin_adjoint(const double* d_next, double* d_y);
  void add_closure_gradient(std::size_t i, double share, double* d_closure, double* d_previous);
  void stage_adjoint(std::size_t i, double* d_y);

  const System& system_;
  std::size_t columns_, d_, size_;
  SparseMatrix l_;
  Matrix e_, e2_, q_, f1_, f2_, f3_;
  std::vector<double> states_, rates_, d_states_, d_rates_;  // (stages, columns, d)
  std::vector<double> half_, sums_;  // (columns, d): E2 v; room of a transposed product
};

}  // namespace mac
