// An HDF5 file while it is written: locked, beside its name until it is complete.
#pragma once

#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"
#include "io/output_lock.hpp"

namespace mac {

struct Hdf5Output {
  explicit Hdf5Output(const std::string& path) : lock(path), target(path), file(h5::File::create(target)) {}

  void commit() {
    file.close();
    target.commit();
  }

  OutputLock lock;
  AtomicFile target;
  h5::File file;
};

}  // namespace mac
