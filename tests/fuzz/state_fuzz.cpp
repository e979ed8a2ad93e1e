// Any bytes are either a saved state of one of these models or refused; never a crash. The mutator writes the checksum
// anew now and then: what comes behind it is to be looked at, too.
#include <mac/mac.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "io/xxh64.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::size_t head_size = 64, hash_at = 56;

/// A network alone, one with a frame, one with noise: their records differ.
const std::array<mac_state*, 3>& states() {
  static const std::array<mac_state*, 3> all = [] {
    std::array<mac_state*, 3> made = {};
    const char* const files[] = {MAC_FUZZ_CORPUS "/mamba_metadata.safetensors",
                                 MAC_FUZZ_CORPUS "/framed.safetensors", MAC_FUZZ_CORPUS "/noise.safetensors"};
    for (std::size_t i = 0; i < made.size(); ++i) {
      mac_model* model = nullptr;
      mac_error error;
      if (mac_model_open(files[i], MAC_FLOAT32, &model, &error) != MAC_OK) std::abort();
      if (mac_state_create(model, 2, &made[i], &error) != MAC_OK) std::abort();
      mac_model_close(model);
    }
    return made;
  }();
  return all;
}

void write_checksum(std::span<std::uint8_t> bytes) {
  std::memset(bytes.data() + hash_at, 0, sizeof(std::uint64_t));
  const auto all = std::as_bytes(bytes);
  const std::uint64_t hash =
      mac::content_hash(all.first(head_size), mac::content_hash(all.subspan(head_size), 0));
  std::memcpy(bytes.data() + hash_at, &hash, sizeof hash);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (seed % 16 == 0) {  // a state that is sound, to begin with
    mac_state* const state = states()[seed / 16 % states().size()];
    size = std::min(mac_state_bytes(state), max_size);
    mac_error error;
    mac_state_save(state, data, size, &error);
  }
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 2 == 0 && size >= head_size) write_checksum({data, size});
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mac_error error;
  for (mac_state* state : states()) {
    mac_saved_columns(state, data, size);
    mac_state_restore(state, data, size, &error);
  }
  return 0;
}
