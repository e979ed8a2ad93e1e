// A program without MPI: alone, and it says so where it was started as one of many.
#include <mac/error.hpp>

#include "base/standard_streams.hpp"
#include "cli/join.hpp"

namespace mac::cli {

void join_ranks() {
  if (const int size = launched(); size > 1)
    throw UsageError(
        "this mac was built without MPI, and {0} processes of it would each do everything: start it once, "
        "without "
        "mpirun or srun -n {0}, or build it with -DMAC_MPI=ON. Where they are to work apart, say MAC_ALONE=1",
        size);
}

int leave_ranks(int exit_code, const std::string& message) {
  if (!message.empty()) say("{}", message);
  return exit_code;
}

std::string mpi_description() { return "no MPI"; }

}  // namespace mac::cli
