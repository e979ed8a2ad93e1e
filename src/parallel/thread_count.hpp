#pragma once

namespace mac {

/// The number of threads a user asked for; 0 means OMP_NUM_THREADS where that is set, else all cores that
/// the process, or the container it runs in, may use.
int thread_count(int asked);

/// The cores that the process, or the container it runs in, may use.
int usable_cores();
/// From now on 0 means at most so many: several processes share the cores.
void share_cores(int most);

}  // namespace mac
