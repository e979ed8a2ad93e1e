#include "network/derivative/program.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>

#include "network/derivative/kernels.hpp"

namespace mac::derivative {

namespace {

/// Arrays start at multiples of the longest vector, whatever the machine.
constexpr std::size_t kVector = 8;
std::size_t whole_vectors(std::size_t count) { return (count + kVector - 1) / kVector * kVector; }

/// y = W x + b. Its transpose needs the weights packed the other way round.
class Linear final : public Operation {
 public:
  Linear(Value y, Value x, Value scratch, const double* weight, const double* bias)
      : y_(y), x_(x), scratch_(scratch) {
    const auto pack_all = [&](cpu::Packer<double>& packer) {
      forward_ = packer.linear(weight, bias, x.size, y.size);
      tangent_ = {forward_.weight, nullptr, forward_.inputs, forward_.outputs};
      transposed_ = {nullptr, nullptr, y.size, packer.padded(x.size)};
      transposed_.weight =
          packer.pack(y.size, x.size, [&](std::size_t o, std::size_t i) { return weight[o * x.size + i]; });
    };
    cpu::Packer<double> counter(k_.lanes, nullptr);
    pack_all(counter);
    storage_ = cpu::aligned_array<double>(counter.used());
    cpu::Packer<double> packer(k_.lanes, storage_.get());
    pack_all(packer);
  }
  void forward(Tile<double> v) const override {
    k_.linear(v.first + y_.at, v.stride, v.first + x_.at, v.stride, forward_, v.columns);
  }
  void tangent(Tile<const double>, Tile<double> d) const override {
    k_.linear(d.first + y_.at, d.stride, d.first + x_.at, d.stride, tangent_, d.columns);
  }
  void adjoint(Tile<const double>, Tile<double> d) const override {
    k_.linear(d.first + scratch_.at, d.stride, d.first + y_.at, d.stride, transposed_, d.columns);
    for (std::size_t s = 0; s < d.columns; ++s)
      for (std::size_t i = 0; i < x_.size; ++i) d.column(s)[x_.at + i] += d.column(s)[scratch_.at + i];
  }

 private:
  Kernels k_ = kernels();
  Value y_, x_, scratch_;
  cpu::PackedLinear<double> forward_, tangent_, transposed_;
  cpu::AlignedArray<double> storage_;
};

/// y = f(x) number by number, with a slope that follows from x and y.
class Pointwise final : public Operation {
 public:
  using Function = void (*)(double* out, const double* in, std::size_t count);
  using Slope = double (*)(double x, double y);
  Pointwise(Value y, Value x, Function function, Slope slope)
      : y_(y), x_(x), function_(function), slope_(slope) {}

  void forward(Tile<double> v) const override {
    for (std::size_t s = 0; s < v.columns; ++s) function_(v.column(s) + y_.at, v.column(s) + x_.at, y_.size);
  }
  void tangent(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s)
      for (std::size_t i = 0; i < y_.size; ++i)
        d.column(s)[y_.at + i] = slope(v.column(s), i) * d.column(s)[x_.at + i];
  }
  void adjoint(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s)
      for (std::size_t i = 0; i < y_.size; ++i)
        d.column(s)[x_.at + i] += slope(v.column(s), i) * d.column(s)[y_.at + i];
  }

 private:
  double slope(const double* v, std::size_t i) const { return slope_(v[x_.at + i], v[y_.at + i]); }

  Value y_, x_;
  Function function_;
  Slope slope_;
};

/// y = a + sign b
class Sum final : public Operation {
 public:
  Sum(Value y, Value a, Value b, double sign) : y_(y), a_(a), b_(b), sign_(sign) {}

  void forward(Tile<double> v) const override { add(v); }
  void tangent(Tile<const double>, Tile<double> d) const override { add(d); }
  void adjoint(Tile<const double>, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s)
      for (std::size_t i = 0; i < y_.size; ++i) {
        const double g = d.column(s)[y_.at + i];
        d.column(s)[a_.at + i] += g;
        d.column(s)[b_.at + i] += sign_ * g;
      }
  }

 private:
  void add(Tile<double> v) const {
    for (std::size_t s = 0; s < v.columns; ++s) {
      double* const of = v.column(s);
      for (std::size_t i = 0; i < y_.size; ++i) of[y_.at + i] = of[a_.at + i] + sign_ * of[b_.at + i];
    }
  }

  Value y_, a_, b_;
  double sign_;
};

/// y = a b, number by number
class Product final : public Operation {
 public:
  Product(Value y, Value a, Value b) : y_(y), a_(a), b_(b) {}

  void forward(Tile<double> v) const override {
    for (std::size_t s = 0; s < v.columns; ++s) {
      double* const of = v.column(s);
      for (std::size_t i = 0; i < y_.size; ++i) of[y_.at + i] = of[a_.at + i] * of[b_.at + i];
    }
  }
  void tangent(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s) {
      const double* const at = v.column(s);
      double* const of = d.column(s);
      for (std::size_t i = 0; i < y_.size; ++i)
        of[y_.at + i] = of[a_.at + i] * at[b_.at + i] + at[a_.at + i] * of[b_.at + i];
    }
  }
  void adjoint(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s) {
      const double* const at = v.column(s);
      double* const of = d.column(s);
      for (std::size_t i = 0; i < y_.size; ++i) {
        const double g = of[y_.at + i];
        of[a_.at + i] += g * at[b_.at + i];
        of[b_.at + i] += g * at[a_.at + i];
      }
    }
  }

 private:
  Value y_, a_, b_;
};

/// Numbers from one place to another.
class Copy final : public Operation {
 public:
  Copy(Value y, Value x) : y_(y), x_(x) {}

  void forward(Tile<double> v) const override { copy(v); }
  void tangent(Tile<const double>, Tile<double> d) const override { copy(d); }
  void adjoint(Tile<const double>, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s)
      for (std::size_t i = 0; i < y_.size; ++i) d.column(s)[x_.at + i] += d.column(s)[y_.at + i];
  }

 private:
  void copy(Tile<double> v) const {
    for (std::size_t s = 0; s < v.columns; ++s)
      std::copy_n(v.column(s) + x_.at, y_.size, v.column(s) + y_.at);
  }

  Value y_, x_;
};

/// n = (x − mean)·scale, y = w n + b, scale = 1/√(variance + 1e-5). n and scale are kept.
class LayerNorm final : public Operation {
 public:
  LayerNorm(Value y, Value x, Value n, Value scale, const double* weight, const double* bias)
      : y_(y), x_(x), n_(n), scale_(scale), weight_(weight), bias_(bias) {}

  void forward(Tile<double> v) const override {
    const double count = static_cast<double>(x_.size);
    for (std::size_t s = 0; s < v.columns; ++s) {
      double* const of = v.column(s);
      const double* const x = of + x_.at;
      double mean = 0, squares = 0;
      for (std::size_t i = 0; i < x_.size; ++i) mean += x[i];
      mean /= count;
      for (std::size_t i = 0; i < x_.size; ++i) squares += (x[i] - mean) * (x[i] - mean);
      const double scale = 1 / std::sqrt(squares / count + 1e-5);
      of[scale_.at] = scale;
      for (std::size_t i = 0; i < x_.size; ++i) {
        of[n_.at + i] = (x[i] - mean) * scale;
        of[y_.at + i] = weight_[i] * of[n_.at + i] + bias_[i];
      }
    }
  }
  /// dn = scale (dx − mean(dx) − n mean(n dx)): a symmetric map, its own transpose.
  void tangent(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s) {
      const double* const n = v.column(s) + n_.at;
      double* const of = d.column(s);
      const Means means = means_of(n, [&](std::size_t i) { return of[x_.at + i]; });
      for (std::size_t i = 0; i < x_.size; ++i)
        of[y_.at + i] =
            weight_[i] * v.column(s)[scale_.at] * (of[x_.at + i] - means.plain - n[i] * means.with_n);
    }
  }
  void adjoint(Tile<const double> v, Tile<double> d) const override {
    for (std::size_t s = 0; s < d.columns; ++s) {
      const double* const n = v.column(s) + n_.at;
      double* const of = d.column(s);
      const auto weighted = [&](std::size_t i) { return weight_[i] * of[y_.at + i]; };
      const Means means = means_of(n, weighted);
      for (std::size_t i = 0; i < x_.size; ++i)
        of[x_.at + i] += v.column(s)[scale_.at] * (weighted(i) - means.plain - n[i] * means.with_n);
    }
  }

 private:
  struct Means {
    double plain = 0, with_n = 0;
  };
  template <class At>
  Means means_of(const double* n, const At& at) const {
    Means means;
    for (std::size_t i = 0; i < x_.size; ++i) means.plain += at(i), means.with_n += n[i] * at(i);
    return {means.plain / static_cast<double>(x_.size), means.with_n / static_cast<double>(x_.size)};
  }

  Value y_, x_, n_, scale_;
  const double *weight_, *bias_;
};

double sigmoid_slope(double, double y) { return y * (1 - y); }
double tanh_slope(double, double y) { return 1 - y * y; }
double softplus_slope(double, double y) { return -std::expm1(-y); }  // sigmoid(x) = 1 − e^−y

}  // namespace

Program::Program(const NetworkShape& shape, std::span<const double> parameters)
    : layout_(shape), parameters_(parameters.begin(), parameters.end()) {}

std::span<const double> Program::weight(const std::string& name) const {
  const TensorSpec& tensor = layout_.at(name);
  return std::span(parameters_).subspan(tensor.offset, tensor.size);
}

Value Program::room(std::size_t size) {
  const Value value{size_, size};
  size_ += whole_vectors(size);
  return value;
}

Value Program::linear(const Value& x, const std::string& name, const std::string& bias) {
  const std::span<const double> w = weight(name);
  const Value y = room(w.size() / x.size);
  add(std::make_unique<Linear>(y, x, room(x.size), w.data(), bias.empty() ? nullptr : weight(bias).data()));
  return y;
}

Value Program::layer_norm(const Value& x, const std::string& name) {
  const Value y = room(x.size), n = room(x.size), scale = room(1);
  add(std::make_unique<LayerNorm>(y, x, n, scale, weight(name + ".weight").data(),
                                  weight(name + ".bias").data()));
  return y;
}

Value Program::sigmoid(const Value& x) {
  const Value y = room(x.size);
  add(std::make_unique<Pointwise>(y, x, kernels().sigmoid, sigmoid_slope));
  return y;
}

Value Program::tanh(const Value& x) {
  const Value y = room(x.size);
  add(std::make_unique<Pointwise>(y, x, kernels().tanh, tanh_slope));
  return y;
}

Value Program::softplus(const Value& x) {
  const Value y = room(x.size);
  add(std::make_unique<Pointwise>(y, x, kernels().softplus, softplus_slope));
  return y;
}

Value Program::plus(const Value& a, const Value& b) {
  const Value y = room(a.size);
  add(std::make_unique<Sum>(y, a, b, 1));
  return y;
}

Value Program::minus(const Value& a, const Value& b) {
  const Value y = room(a.size);
  add(std::make_unique<Sum>(y, a, b, -1));
  return y;
}

Value Program::times(const Value& a, const Value& b) {
  const Value y = room(a.size);
  add(std::make_unique<Product>(y, a, b));
  return y;
}

Value Program::concat(const std::vector<Value>& parts) {
  std::size_t size = 0;
  for (const Value& part : parts) size += part.size;
  const Value y = room(size);
  std::size_t at = y.at;
  for (const Value& part : parts) {
    add(std::make_unique<Copy>(Value{at, part.size}, part));
    at += part.size;
  }
  return y;
}

std::vector<Value> Program::split(const Value& value, const std::vector<std::size_t>& sizes) {
  std::vector<Value> parts;
  std::size_t at = value.at;
  for (const std::size_t size : sizes) {
    parts.push_back({at, size});
    at += size;
  }
  return parts;
}

void Program::forward(Tile<double> v) const {
  for (const auto& operation : operations_) operation->forward(v);
}

void Program::tangent(Tile<const double> v, Tile<double> d) const {
  for (const auto& operation : operations_) operation->tangent(v, d);
}

void Program::adjoint(Tile<const double> v, Tile<double> d) const {
  for (std::size_t i = operations_.size(); i-- > 0;) operations_[i]->adjoint(v, d);
}

}  // namespace mac::derivative
