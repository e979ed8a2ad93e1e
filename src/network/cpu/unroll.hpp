// MAC_UNROLL before a loop over a register tile: unrolled in full, so that the tile stays in registers.
#pragma once

#if defined(__clang__)
#define MAC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MAC_UNROLL _Pragma("GCC unroll 32")
#endif
