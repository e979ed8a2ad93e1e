// One writer at a time for what takes long to make.
#pragma once

#include <filesystem>
#include <memory>

namespace mac {

/// Holds OUTPUT.lock, or FOLDER/run.lock of a folder, as long as it lives; of a link that of the file behind it.
/// The lock says who holds it, process and host. A lock whose process is gone holds nothing: the system let go of it. Within a process a lock is
/// shared. What processes that are gone left of their unfinished files beside the output is removed.
class OutputLock {
 public:
  /// Throws Error, saying who, while another process holds it. Where no lock can be made (a folder that may not be
  /// written) there is none: writing the output fails with its own reason.
  explicit OutputLock(const std::filesystem::path& given);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  class Held;
  std::shared_ptr<Held> held_;
};

}  // namespace mac
