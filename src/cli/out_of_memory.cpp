// Memory that is not there becomes a sentence with the size that was asked for.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

namespace mac::cli {

namespace {

class OutOfMemory final : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::size_t bytes) {
    std::snprintf(text_, sizeof text_, "there is not enough memory: %.3g MB were asked for at once",
                  static_cast<double>(bytes) / 1e6);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[96];  // no memory for more
};

std::terminate_handler handler_before = nullptr;
std::atomic<std::size_t> refused = 0;  // bytes of the last request that failed

/// Where nothing may be thrown (the destructor of JSON asks for memory, the library's walk through a folder), the same
/// sentence is the end.
[[noreturn]] void end() noexcept {
  try {
    if (std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    if (refused > 0) throw OutOfMemory(refused);
  } catch (const OutOfMemory& error) {
    std::fprintf(stderr, "mac: %s\n", error.what());
    std::_Exit(1);
  } catch (...) {
  }
  handler_before();
  std::abort();
}

const bool ends_with_a_sentence = (handler_before = std::set_terminate(end), true);

}  // namespace
}  // namespace mac::cli

// A sanitizer has its own, and knows which of them belong together.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The others, of arrays and without exceptions, end here by the standard.
void* operator new(std::size_t bytes) {
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  mac::cli::refused = bytes;
  throw mac::cli::OutOfMemory(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
