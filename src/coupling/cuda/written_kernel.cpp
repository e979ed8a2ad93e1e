#include "coupling/cuda/written_kernel.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "coupling/cuda/embedded_headers.hpp"
#include "network/cuda/device.hpp"

namespace mac::cuda {

namespace {

/// The functions of nvrtc.h, which all its versions have with these parameters.
struct Compiler {
  using Program = void*;
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*add_name)(Program, const char*) = nullptr;
  int (*compile)(Program, int options, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*code_size)(Program, std::size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*lowered_name)(Program, const char*, const char**) = nullptr;
  const char* (*error)(int) = nullptr;
  std::string missing;  // why it cannot be used, or empty

  Compiler() {
    const std::string versioned = fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000);
    std::vector<std::string> places{versioned, "/usr/local/cuda/lib64/" + versioned, "libnvrtc.so"};
    if (const char* const named = std::getenv("MAC_NVRTC")) places = {named};
    void* library = nullptr;
    for (std::size_t i = 0; i < places.size() && !library; ++i)
      library = dlopen(places[i].c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      missing = fmt::format(
          "{}, the compiler of the CUDA toolkit, was not found; $MAC_NVRTC may say where it is", places[0]);
      return;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (!function) missing = fmt::format("{} has no function {}", places[0], name);
    };
    find(create, "nvrtcCreateProgram");
    find(destroy, "nvrtcDestroyProgram");
    find(add_name, "nvrtcAddNameExpression");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(code_size, "nvrtcGetCUBINSize");
    find(code, "nvrtcGetCUBIN");
    find(lowered_name, "nvrtcGetLoweredName");
    find(error, "nvrtcGetErrorString");
  }
};

const Compiler& compiler() {
  static const Compiler opened;
  return opened;
}

/// A program of the compiler, which goes with it.
class Source {
 public:
  Source(const Compiler& with, const std::string& text) : with_(with) {
    std::vector<const char*> texts, names;
    for (const EmbeddedHeader& header : embedded_headers())
      texts.push_back(header.text), names.push_back(header.name);
    succeed(with_.create(&program_, text.c_str(), "equations.cu", static_cast<int>(names.size()),
                         texts.data(), names.data()));
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() { with_.destroy(&program_); }

  CompiledKernel compile(const std::string& kernel, int architecture) {
    succeed(with_.add_name(program_, kernel.c_str()));
    const std::string target = fmt::format("-arch=sm_{}", architecture);
    // Declarations without an execution space are the host's in the headers; nobody calls them here.
    const char* const options[] = {target.c_str(), "-std=c++20", "-default-device", "-w"};
    const int status = with_.compile(program_, std::size(options), options);
    if (status != 0)
      throw Error("the equations could not be compiled for the CUDA device: {}", words(status));
    std::size_t size = 0;
    succeed(with_.code_size(program_, &size));
    CompiledKernel made{std::string(size, '\0'), ""};
    succeed(with_.code(program_, made.code.data()));
    const char* name = nullptr;
    succeed(with_.lowered_name(program_, kernel.c_str(), &name));
    made.name = name;
    return made;
  }

 private:
  void succeed(int status) const {
    if (status != 0) throw Error("NVRTC, the compiler of equations, failed: {}", with_.error(status));
  }
  /// What the compiler says, as far as its first lines.
  std::string words(int status) const {
    constexpr std::size_t most = 2000;
    std::size_t size = 0;
    with_.log_size(program_, &size);
    std::string log(size, '\0');
    with_.log(program_, log.data());
    return fmt::format("{}\n{}", with_.error(status), log.substr(0, most));
  }

  const Compiler& with_;
  Compiler::Program program_ = nullptr;
};

int architecture_of(int device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking what it is");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking what it is");
  return 10 * major + minor;
}

}  // namespace

KernelName own_kernel(std::string header, const std::string& kernel,
                      std::initializer_list<std::string> arguments) {
  return {std::move(header),
          fmt::format("mac::cuda::{}<{}, mac::cuda::OwnEquations>", kernel, fmt::join(arguments, ", "))};
}

std::string packed_layout(LayerKind kind) {
  return fmt::format("mac::cuda::PackedLayout<mac::{}::StepLayer, mac::cuda::AnyPackedSizes>",
                     to_string(kind));
}

std::string runtime_compiler_unavailable() {
#if CUDART_VERSION < 12080
  return "this program was built with a CUDA toolkit older than 12.8";
#else
  return compiler().missing;
#endif
}

CompiledKernel compile_kernel(const WrittenEquations& equations, const KernelName& kernel, int architecture) {
  if (const std::string reason = runtime_compiler_unavailable(); !reason.empty())
    throw Error("equations that came as text cannot be compiled for the CUDA device: {}, or use --device cpu",
                reason);
  // The kernel first, so that it looks names up as in the program.
  return Source(compiler(), fmt::format("#include \"{}\"\n{}#include \"coupling/cuda/own_equations.hpp\"\n",
                                        kernel.header, *equations.code))
      .compile(kernel.name, architecture);
}

const void* written_kernel(const WrittenEquations& equations, const KernelName& kernel) {
#if CUDART_VERSION < 12080
  return compile_kernel(equations, kernel, 0).name.data();  // says so
#else
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string>, cudaKernel_t> known;  // stay for the process
  const std::lock_guard lock(mutex);
  const auto [place, fresh] = known.try_emplace({kernel.name, *equations.code});
  if (!fresh) return place->second;
  try {
    int device = 0;
    check(cudaGetDevice(&device), "asking which it is");
    const CompiledKernel made = compile_kernel(equations, kernel, architecture_of(device));
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, made.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "loading compiled equations");
    check(cudaLibraryGetKernel(&place->second, library, made.name.c_str()), "loading compiled equations");
  } catch (...) {
    known.erase(place);
    throw;
  }
  return place->second;
#endif
}

}  // namespace mac::cuda
