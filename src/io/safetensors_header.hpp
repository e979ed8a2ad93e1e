// The JSON header of a safetensors file, checked entry by entry.
#pragma once

#include <mac/safetensors.hpp>
#include <string_view>

namespace mac {

/// More than a hundred million bytes of header are refused, as by the format's other readers.
inline constexpr std::size_t largest_safetensors_header = 100'000'000;

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of their data, which they cover without gap or overlap
};

/// Throws Error unless `json` describes exactly `data_size` bytes of tensors.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::size_t data_size,
                                           const std::string& file);

}  // namespace mac
