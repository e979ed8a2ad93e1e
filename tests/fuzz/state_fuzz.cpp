// Any bytes are either a saved state of this model or refused; never a crash. The mutator writes the checksum
// anew now and then: what comes behind it is to be looked at, too.
#include <mac/mac.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "io/xxh64.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::size_t head_size = 64, hash_at = 56;

mac_state* state() {
  static mac_state* const the = [] {
    static mac_model* model = nullptr;  // stays
    mac_state* made = nullptr;
    mac_error error;
    if (mac_model_open(MAC_FUZZ_CORPUS "/mamba_metadata.safetensors", MAC_FLOAT32, &model, &error) != MAC_OK)
      std::abort();
    if (mac_state_create(model, 2, &made, &error) != MAC_OK) std::abort();
    return made;
  }();
  return the;
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
    size = std::min(mac_state_bytes(state()), max_size);
    mac_error error;
    mac_state_save(state(), data, size, &error);
  }
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 2 == 0 && size >= head_size) write_checksum({data, size});
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mac_error error;
  mac_saved_columns(state(), data, size);
  mac_state_restore(state(), data, size, &error);
  return 0;
}
