#include "parallel/thread_count.hpp"

#include <omp.h>

#include <cstdlib>

namespace mac {

int thread_count(int asked) {
  if (asked > 0) return asked;
  return std::getenv("OMP_NUM_THREADS") ? omp_get_max_threads() : omp_get_num_procs();
}

}  // namespace mac
