// Any bytes are either a well-formed safetensors file or an Error; never a crash, a hang or a huge
// allocation.
#include <cstdlib>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/safetensors.hpp>

namespace {

void read_everything(std::string_view bytes) {
  const auto file = mac::Safetensors::parse(bytes, "fuzz");
  std::size_t data = 0;
  for (const mac::TensorInfo& tensor : file.tensors()) {
    const bool integral = tensor.dtype == mac::Dtype::i64;
    const std::size_t count = integral ? file.integers(tensor.name).size() : file.numbers(tensor.name).size();
    if (count != tensor.count) std::abort();
    data += count * mac::size_of(tensor.dtype);
  }
  if (data > bytes.size()) std::abort();

  const mac::Model model = mac::model_from(file);
  if (model.parameters.size() != mac::parameter_count(model.shape)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read_everything({reinterpret_cast<const char*>(data), size});
  } catch (const mac::Error&) {
  }
  return 0;
}
