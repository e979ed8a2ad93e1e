// Derivatives of one step of a network, in double precision.
//
// A kind of layer says its step once, as operations on named weights (kinds/KIND/graph.hpp). Here they become a
// program: a list of operations on one array of numbers a column. Each operation knows its values, its
// derivative along a direction (tangent) and the transpose of that (adjoint). Run forwards, the tangents give
// J d; run backwards, the adjoints give Jᵀ g. So no layer has a derivative of its own, and the two agree to
// rounding.
#pragma once

#include <mac/network.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "network/cpu/aligned.hpp"

namespace mac::derivative {

/// A run of a column's numbers.
struct Value {
  std::size_t at = 0, size = 0;
};

/// The numbers of some columns; those of column s start at `first + s·stride`. Stride 0: one column for all.
template <class T>
struct Tile {
  T* first;
  std::size_t stride, columns;

  T* column(std::size_t s) const { return first + s * stride; }
};

/// `v` are values, `d` derivatives; both lie where the Values say.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual void forward(Tile<double> v) const = 0;
  /// d of the results from d of the arguments, which it overwrites.
  virtual void tangent(Tile<const double> v, Tile<double> d) const = 0;
  /// Adds to d of the arguments what d of the results gives them.
  virtual void adjoint(Tile<const double> v, Tile<double> d) const = 0;
};

class Program {
 public:
  using Value = derivative::Value;

  /// The parameters are those of ParameterLayout(shape), and are copied.
  Program(const NetworkShape& shape, std::span<const double> parameters);

  // What a step is made of, in the words of kinds/KIND/graph.hpp. Weights have the names of ParameterLayout.
  Value linear(const Value& x, const std::string& weight, const std::string& bias = "");
  Value layer_norm(const Value& x, const std::string& name);
  Value sigmoid(const Value& x);
  Value tanh(const Value& x);
  Value softplus(const Value& x);
  Value plus(const Value& a, const Value& b);
  Value minus(const Value& a, const Value& b);
  Value times(const Value& a, const Value& b);
  Value silu(const Value& x) { return times(x, sigmoid(x)); }
  Value concat(const std::vector<Value>& parts);
  std::vector<Value> split(const Value& value, const std::vector<std::size_t>& sizes);

  // What operations of a kind's own need.
  std::span<const double> weight(const std::string& name) const;
  /// Room for a result. It starts at a whole vector, and so does what comes after it.
  Value room(std::size_t size);
  void add(std::unique_ptr<Operation> operation) { operations_.push_back(std::move(operation)); }

  /// Numbers of a column.
  std::size_t size() const { return size_; }
  void forward(Tile<double> v) const;
  void tangent(Tile<const double> v, Tile<double> d) const;
  void adjoint(Tile<const double> v, Tile<double> d) const;

 private:
  ParameterLayout layout_;
  std::vector<double> parameters_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::size_t size_ = 0;
};

}  // namespace mac::derivative
