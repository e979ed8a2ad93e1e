// The layers that act on each time step alone, as pairs x_forward / x_backward in plain loops.
//
// Conventions of all reference layers: outputs come first, then inputs, then parameters, then sizes. `rows`
// is batch × time. d_a is the gradient of the loss with respect to a. A forward function overwrites its
// output; a backward function *adds* to the gradients it produces, so that a value used twice collects both.
#pragma once

#include <cmath>
#include <cstddef>

namespace mac::reference {

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

/// log(1 + eˣ) without overflow; its derivative is the sigmoid.
template <class T>
T softplus(T x) {
  return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::abs(x)));
}

/// y = x Wᵀ + b.  y (rows, d_out), x (rows, d_in), weight (d_out, d_in), bias (d_out) or null
template <class T>
void linear_forward(T* y, const T* x, const T* weight, const T* bias, std::size_t rows, std::size_t d_in,
                    std::size_t d_out) {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t o = 0; o < d_out; ++o) {
      T sum = bias ? bias[o] : T(0);
      for (std::size_t i = 0; i < d_in; ++i) sum += weight[o * d_in + i] * x[row * d_in + i];
      y[row * d_out + o] = sum;
    }
}

template <class T>
void linear_backward(T* d_x, T* d_weight, T* d_bias, const T* d_y, const T* x, const T* weight,
                     std::size_t rows, std::size_t d_in, std::size_t d_out) {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t o = 0; o < d_out; ++o) {
      const T d = d_y[row * d_out + o];
      if (d_bias) d_bias[o] += d;
      for (std::size_t i = 0; i < d_in; ++i) {
        d_x[row * d_in + i] += d * weight[o * d_in + i];
        d_weight[o * d_in + i] += d * x[row * d_in + i];
      }
    }
}

/// y = x σ(x), elementwise.
template <class T>
void silu_forward(T* y, const T* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] * sigmoid(x[i]);
}

template <class T>
void silu_backward(T* d_x, const T* d_y, const T* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T s = sigmoid(x[i]);
    d_x[i] += d_y[i] * s * (1 + x[i] * (1 - s));
  }
}

/// y = a · SiLU(z), elementwise.
template <class T>
void gate_forward(T* y, const T* a, const T* z, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = a[i] * z[i] * sigmoid(z[i]);
}

template <class T>
void gate_backward(T* d_a, T* d_z, const T* d_y, const T* a, const T* z, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T s = sigmoid(z[i]);
    d_a[i] += d_y[i] * z[i] * s;
    d_z[i] += d_y[i] * a[i] * s * (1 + z[i] * (1 - s));
  }
}

/// y = w (x − μ)/√(v + ε) + b over the d channels of a row, v the biased variance, ε = 1e-5.
/// y, x (rows, d); mean, scale (rows) are kept for the backward pass, scale = 1/√(v + ε)
template <class T>
void layer_norm_forward(T* y, T* mean, T* scale, const T* x, const T* weight, const T* bias, std::size_t rows,
                        std::size_t d) {
  const T count = static_cast<T>(d);
  for (std::size_t row = 0; row < rows; ++row) {
    const T* const in = x + row * d;
    T sum = 0;
    for (std::size_t i = 0; i < d; ++i) sum += in[i];
    const T mu = sum / count;
    T squares = 0;
    for (std::size_t i = 0; i < d; ++i) squares += (in[i] - mu) * (in[i] - mu);
    mean[row] = mu;
    scale[row] = 1 / std::sqrt(squares / count + T(1e-5));
    for (std::size_t i = 0; i < d; ++i) y[row * d + i] = weight[i] * (in[i] - mu) * scale[row] + bias[i];
  }
}

/// With n = (x − μ)·scale and g = d_y·w:  d_x = scale (g − mean(g) − n mean(g n)).
template <class T>
void layer_norm_backward(T* d_x, T* d_weight, T* d_bias, const T* d_y, const T* mean, const T* scale,
                         const T* x, const T* weight, std::size_t rows, std::size_t d) {
  const T count = static_cast<T>(d);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto normalised = [&](std::size_t i) { return (x[row * d + i] - mean[row]) * scale[row]; };
    T sum = 0, sum_normalised = 0;
    for (std::size_t i = 0; i < d; ++i) {
      const T out = d_y[row * d + i];
      d_weight[i] += out * normalised(i);
      d_bias[i] += out;
      sum += out * weight[i];
      sum_normalised += out * weight[i] * normalised(i);
    }
    for (std::size_t i = 0; i < d; ++i)
      d_x[row * d + i] +=
          scale[row] * (d_y[row * d + i] * weight[i] - sum / count - normalised(i) * sum_normalised / count);
  }
}

}  // namespace mac::reference
