#include "parallel/thread_count.hpp"

#include <omp.h>

namespace mac {

int thread_count(int asked) { return asked > 0 ? asked : omp_get_num_procs(); }

}  // namespace mac
