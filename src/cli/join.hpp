// The ranks of the program: with MPI (ranks_mpi.cpp), or the refusal to be one of many without it (ranks_absent.cpp).
#pragma once

#include <cstdlib>
#include <string>

namespace mac::cli {

/// Joins the other processes where mpirun or srun has started several: from now on ranks() are they. Ranks other than 0
/// print nothing. UsageError where they cannot find each other. MPI starts only where it is needed.
void join_ranks();

/// The end of a command, on all ranks: rank 0 says what went wrong, and where. Where a rank has failed and the others
/// do not come to their end as well, it ends them all.
int leave_ranks(int exit_code, const std::string& message);

/// For `mac --version`.
std::string mpi_description();

/// How many processes a launcher has started beside each other, itself among them, as far as its variables tell; 1
/// where there is none. MAC_ALONE=1 hides it.
inline int launched() {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : 0;
  };
  if (number("MAC_ALONE") != 0) return 1;
  // Open MPI; MPICH and Slurm's PMI; a step of srun (a batch script alone has SLURM_NTASKS, but no step).
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const int size = number(name); size > 0) return size;
  return 1;
}

}  // namespace mac::cli
