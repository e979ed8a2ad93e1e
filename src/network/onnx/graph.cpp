#include "network/onnx/graph.hpp"

#include <fmt/format.h>

#include <mac/version.hpp>

namespace mac::onnx {

namespace {

using protobuf::Message;

static_assert(std::endian::native == std::endian::little, "raw tensor data are little-endian");

template <class T>
std::string_view raw_bytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

/// ValueInfoProto of a tensor (batch, width); the batch is free.
Message value_info(const std::string& name, ElementType type, std::size_t width, const std::string& doc) {
  Message shape;
  shape.message(1, Message().text(2, "batch"));
  shape.message(1, Message().integer(1, static_cast<std::int64_t>(width)));
  const Message tensor = Message().integer(1, static_cast<std::int64_t>(type)).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor)).text(3, doc);
}

}  // namespace

Attribute::Attribute(const std::string& name, std::int64_t value) {
  encoded.text(1, name).integer(3, value).integer(20, 2);
}

Attribute::Attribute(const std::string& name, float value) {
  encoded.text(1, name).real(2, value).integer(20, 1);
}

Value Graph::input(const std::string& name, ElementType type, std::size_t width, const std::string& doc) {
  inputs_.message(11, value_info(name, type, width, doc));
  return name;
}

void Graph::output(const std::string& name, ElementType type, std::size_t width, const std::string& doc) {
  outputs_.message(12, value_info(name, type, width, doc));
}

Value Graph::constant(const std::string& name, const std::vector<std::size_t>& shape,
                      std::span<const float> values) {
  add_tensor(name, shape, ElementType::float32, raw_bytes(values));
  return name;
}

Value Graph::constant(const std::string& name, const std::vector<std::size_t>& shape,
                      std::span<const double> values) {
  add_tensor(name, shape, ElementType::float64, raw_bytes(values));
  return name;
}

Value Graph::integers(const std::vector<std::int64_t>& values) {
  const auto [entry, is_new] = integers_.try_emplace(values, fmt::format("[{}]", fmt::join(values, ",")));
  if (is_new) add_tensor(entry->second, {values.size()}, ElementType::int64, raw_bytes(std::span(values)));
  return entry->second;
}

Value Graph::add(const std::string& op, const std::vector<Value>& inputs,
                 const std::vector<Attribute>& attributes, const std::string& result) {
  const Value output = result.empty() ? new_value() : result;
  add_node(op, inputs, {output}, attributes);
  return output;
}

std::vector<Value> Graph::split(const Value& value, const std::vector<std::size_t>& widths) {
  std::vector<Value> pieces;
  for (std::size_t i = 0; i < widths.size(); ++i) pieces.push_back(new_value());
  const Value lengths = integers(std::vector<std::int64_t>(widths.begin(), widths.end()));
  add_node("Split", {value, lengths}, pieces, {{"axis", std::int64_t{1}}});
  return pieces;
}

std::string Graph::model_bytes(const std::string& doc,
                               const std::map<std::string, std::string>& metadata) const {
  Message graph;
  graph.text(2, name_);
  const std::string graph_bytes =
      nodes_.bytes() + graph.bytes() + tensors_.bytes() + inputs_.bytes() + outputs_.bytes();
  Message model;
  model.integer(1, 8).text(2, "mac").text(3, version()).text(6, doc).text(7, graph_bytes);
  model.message(8, Message().text(1, "").integer(2, opset));
  for (const auto& [key, value] : metadata) model.message(14, Message().text(1, key).text(2, value));
  return model.bytes();
}

void Graph::add_node(const std::string& op, const std::vector<Value>& inputs,
                     const std::vector<Value>& outputs, const std::vector<Attribute>& attributes) {
  Message node;
  for (const Value& input : inputs) node.text(1, input);
  for (const Value& output : outputs) node.text(2, output);
  node.text(4, op);
  for (const Attribute& attribute : attributes) node.message(5, attribute.encoded);
  nodes_.message(1, node);
}

Value Graph::new_value() { return fmt::format("v{}", ++values_); }

void Graph::add_tensor(const std::string& name, const std::vector<std::size_t>& shape, ElementType type,
                       std::string_view raw) {
  Message tensor;
  for (const std::size_t extent : shape) tensor.integer(1, static_cast<std::int64_t>(extent));
  tensor.integer(2, static_cast<std::int64_t>(type)).text(8, name).text(9, raw);
  tensors_.message(5, tensor);
}

}  // namespace mac::onnx
