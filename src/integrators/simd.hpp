// Loops over contiguous numbers that are worth compiling twice: for any x86-64 and for AVX2, chosen when the
// program starts. Neither version contracts a*b+c into one rounding, so both give the same bits. Clang 14
// gives the clones names of its own that other files cannot call, so there it is one version.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define MAC_VECTOR_CLONES __attribute__((target_clones("default", "avx2")))
#else
#define MAC_VECTOR_CLONES
#endif
