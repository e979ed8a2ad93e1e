// Building an ONNX model: nodes and constants in the order they are added, then the file. Field numbers are
// those of onnx.proto3, which never change.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "network/onnx/protobuf.hpp"

namespace mac::onnx {

inline constexpr std::int64_t opset = 17;  // LayerNormalization came with it

/// TensorProto.DataType
enum class ElementType : std::int64_t { float32 = 1, int64 = 7, float64 = 11 };

/// A value of the graph, by its name.
using Value = std::string;

struct Attribute {
  protobuf::Message encoded;
  Attribute(const std::string& name, std::int64_t value);
  Attribute(const std::string& name, float value);
};

class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}

  /// Arguments and results have the shape (batch, width).
  Value input(const std::string& name, ElementType type, std::size_t width, const std::string& doc);
  void output(const std::string& name, ElementType type, std::size_t width, const std::string& doc);

  Value constant(const std::string& name, const std::vector<std::size_t>& shape,
                 std::span<const float> values);
  Value constant(const std::string& name, const std::vector<std::size_t>& shape,
                 std::span<const double> values);
  /// A list of integers, as shapes, axes and lengths are given. The same list is stored once.
  Value integers(const std::vector<std::int64_t>& values);

  /// One result, named `result` or, when that is empty, by a number.
  Value add(const std::string& op, const std::vector<Value>& inputs,
            const std::vector<Attribute>& attributes = {}, const std::string& result = "");
  /// Columns of a (batch, width) value, cut into pieces of the given widths.
  std::vector<Value> split(const Value& value, const std::vector<std::size_t>& widths);

  std::string model_bytes(const std::string& doc, const std::map<std::string, std::string>& metadata) const;

 private:
  void add_node(const std::string& op, const std::vector<Value>& inputs, const std::vector<Value>& outputs,
                const std::vector<Attribute>& attributes);
  Value new_value();
  void add_tensor(const std::string& name, const std::vector<std::size_t>& shape, ElementType type,
                  std::string_view raw);

  std::string name_;
  protobuf::Message nodes_, tensors_, inputs_, outputs_;  // fields of GraphProto
  std::map<std::vector<std::int64_t>, Value> integers_;
  std::size_t values_ = 0;
};

}  // namespace mac::onnx
