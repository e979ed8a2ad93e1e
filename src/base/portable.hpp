// The same bytes on every machine.
#pragma once

namespace mac {

/// From now on networks compute with one instruction set that every x86-64 processor since 2013 has (AVX2 with
/// FMA), also where there are newer ones: training adds up gradients in the order of its vectors, so its last
/// digits depend on their length. To be called before the first network. Throws UsageError on an older processor.
void use_portable_instructions();

}  // namespace mac
