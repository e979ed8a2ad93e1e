// mpirun of the program: oversubscribed on whatever cores there are, as root too.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac::test {

/// The program and its mpirun; another MPI's where the environment names them.
inline std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}
inline std::string ranks_program() { return from_environment("MAC_RANKS_PROGRAM", MAC_PROGRAM); }
inline std::string mpirun() { return from_environment("MAC_MPIRUN", MAC_MPIRUN); }

/// `mpirun -n RANKS mac ARGUMENTS`; `before`: shell commands of every rank, which knows its number as $RANK.
inline ProgramResult run_ranks(std::size_t ranks, const std::string& arguments,
                               const std::string& before = "") {
  const std::string settings =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
      "OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,vader "
      "OMPI_MCA_plm_rsh_agent=/bin/true OMP_NUM_THREADS=1";
  const std::string program = before.empty() ? ranks_program() + " " + arguments
                                             : "sh -c 'RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; " + before +
                                                   "; exec " + ranks_program() + " " + arguments + "'";
  return run_command(settings + " " + mpirun() + " -n " + std::to_string(ranks) + " " + program +
                     " 2>&1 < /dev/null");
}

inline std::string written(const ScratchFolder& folder, const std::string& name, const std::string& text) {
  write_bytes(folder.file(name), text);
  return folder.file(name);
}

/// Names in a folder, to see that nothing half is left.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

inline const std::string small_study = R"([system]
name = "burgers"
grid = 32
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 7
horizon = 0.2
[data.validation]
trajectories = 3
horizon = 0.2
[data.test]
trajectories = 5
horizon = 0.2
[data.ood]
continues = "test"
horizon = 0.1
)";

}  // namespace mac::test
