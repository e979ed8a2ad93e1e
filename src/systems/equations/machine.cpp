// The loop that runs a program: one switch over the operations, each with its loops for arrays and single
// numbers in place, so that an instruction on a few numbers costs a few nanoseconds.
#include <algorithm>
#include <cmath>

#include "integrators/simd.hpp"
#include "systems/equations/program.hpp"

namespace mac::equations {

namespace {

constexpr std::size_t lanes = 8;  // partial sums, so that additions need not wait for each other

inline double sum_in_lanes(std::size_t n, const double* a) {
  double partial[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) partial[l] += a[i + l];
  for (std::size_t l = 0; i + l < n; ++l) partial[l] += a[i + l];
  for (std::size_t step = lanes / 2; step > 0; step /= 2)
    for (std::size_t l = 0; l < step; ++l) partial[l] += partial[l + step];
  return partial[0];
}

void gather(const Instruction& i, const double* a, double* out) {
  const auto n = static_cast<std::size_t>(i.n);
  if (i.b == repeated) {
    const auto each = static_cast<std::size_t>(i.c);
    for (std::size_t k = 0; k < n; k += each) std::fill_n(out + k, each, a[k / each]);
  } else if (i.b == by_runs) {
    for (std::int32_t r = 0; r < 2 * i.c; r += 2) out = std::copy_n(a + i.list[r], i.list[r + 1], out);
  } else {
    for (std::size_t k = 0; k < n; ++k) out[k] = a[i.list[k]];
  }
}

/// Operations that cost more than finding out which they are.
void other(const Instruction& i, const double* a, const double* b, const double* c, double* out) {
  const auto n = static_cast<std::size_t>(i.n);
  const std::size_t along_a = i.arrays & 1 ? 1 : 0, along_b = i.arrays & 2 ? 1 : 0,
                    along_c = i.arrays & 4 ? 1 : 0;
  for (std::size_t k = 0; k < n; ++k) out[k] = apply(i.op, a[k * along_a], b[k * along_b], c[k * along_c]);
}

constexpr int shape(Op op, int arrays) { return static_cast<int>(op) * 8 + arrays; }

}  // namespace

// One operation on single numbers, array and array, array and number, number and array. The result may take the
// place of an operand, never lies shifted against it.
#define MAC_EACH(expression)                                                    \
  _Pragma("GCC ivdep") for (std::size_t k = 0; k < n; ++k) out[k] = expression; \
  break;
#define MAC_BINARY(op, symbol) \
  case shape(op, 0):           \
    *out = *a symbol * b;      \
    break;                     \
  case shape(op, 3):           \
    MAC_EACH(a[k] symbol b[k]) \
  case shape(op, 1): {         \
    const double s = *b;       \
    MAC_EACH(a[k] symbol s)    \
  }                            \
  case shape(op, 2): {         \
    const double s = *a;       \
    MAC_EACH(s symbol b[k])    \
  }
// first operand array or number, the others arrays
#define MAC_TERNARY(op, of)        \
  case shape(op, 0):               \
    *out = of(*a, *b, *c);         \
    break;                         \
  case shape(op, 7):               \
    MAC_EACH(of(a[k], b[k], c[k])) \
  case shape(op, 6): {             \
    const double s = *a;           \
    MAC_EACH(of(s, b[k], c[k]))    \
  }
#define MAC_MUL_ADD(x, y, z) x* y + z
#define MAC_MUL_SUB(x, y, z) x* y - z
#define MAC_SUB_MUL(x, y, z) z - x* y

MAC_VECTOR_CLONES
void run_instructions(const Instruction* first, std::size_t count, double* work, double* output) {
  for (const Instruction* i = first; i != first + count; ++i) {
    const auto n = static_cast<std::size_t>(i->n);
    const double *a = work + i->a, *b = work + i->b, *c = work + i->c;
    double* const out = (i->to_output ? output : work) + i->out;
    switch (shape(i->op, i->arrays)) {
      MAC_BINARY(Op::add, +)
      MAC_BINARY(Op::sub, -)
      MAC_BINARY(Op::mul, *)
      MAC_BINARY(Op::div, /)
      MAC_TERNARY(Op::mul_add, MAC_MUL_ADD)
      MAC_TERNARY(Op::mul_sub, MAC_MUL_SUB)
      MAC_TERNARY(Op::sub_mul, MAC_SUB_MUL)
      case shape(Op::neg, 0):
        *out = -*a;
        break;
      case shape(Op::neg, 1):
        MAC_EACH(-a[k])
      case shape(Op::sin, 0):
        *out = std::sin(*a);
        break;
      case shape(Op::cos, 0):
        *out = std::cos(*a);
        break;
      case shape(Op::gather, 0):
      case shape(Op::gather, 1):
        gather(*i, a, out);
        break;
      case shape(Op::segments, 0):
      case shape(Op::segments, 1):
        for (std::size_t k = 0; k < n; ++k)
          out[k] = sum_in_lanes(static_cast<std::size_t>(i->list[k + 1] - i->list[k]), a + i->list[k]);
        break;
      case shape(Op::merge, 0):
      case shape(Op::merge, 1):
      case shape(Op::merge, 2):
      case shape(Op::merge, 3):
        for (std::size_t k = 0; k < n; ++k) out[k] = i->list[k] >= 0 ? a[i->list[k]] : b[-1 - i->list[k]];
        break;
      default:
        other(*i, a, b, c, out);
    }
  }
}

}  // namespace mac::equations
