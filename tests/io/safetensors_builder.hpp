// Safetensors bytes made by hand, right or wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mac/network.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mac::test {

/// Length, header and data as they are, without any check.
inline std::string raw_file(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

/// One tensor's entry in the header.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

struct CraftedTensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

/// The tensors of a network with sensible values, to be spoiled before they become a file.
struct CraftedModel {
  std::vector<CraftedTensor> tensors;
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();

  explicit CraftedModel(const NetworkShape& shape) {
    const ParameterLayout layout(shape);
    const auto parameters = initial_parameters(shape, 3);
    for (const TensorSpec& spec : layout.tensors()) {
      const auto begin = parameters.begin() + static_cast<std::ptrdiff_t>(spec.offset);
      CraftedTensor tensor{spec.name, spec.shape, {}};
      for (auto value = begin; value != begin + static_cast<std::ptrdiff_t>(spec.size); ++value)
        tensor.values.push_back(static_cast<float>(*value));
      tensors.push_back(std::move(tensor));
    }
  }

  CraftedTensor& at(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const auto& tensor) { return tensor.name == name; });
  }

  std::string bytes() const {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::string data;
    for (const CraftedTensor& tensor : tensors) {
      const std::size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
      header[tensor.name] = {
          {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    return raw_file(header.dump(), data);
  }
};

}  // namespace mac::test
