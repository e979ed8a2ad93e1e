// The loop that runs a program: one switch over the operations, each with its loops for arrays and single
// numbers in place, so that an instruction on a single number costs a nanosecond or two.
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
  if (i.b == repeated) {
    for (std::size_t k = 0; k < i.n; k += i.c) std::fill_n(out + k, i.c, a[k / i.c]);
  } else if (i.b == by_runs) {
    for (std::size_t r = 0; r < 2 * i.c; r += 2) out = std::copy_n(a + i.list[r], i.list[r + 1], out);
  } else {
    for (std::size_t k = 0; k < i.n; ++k) out[k] = a[i.list[k]];
  }
}

/// Operations that cost more than finding out which they are.
void other(const Instruction& i, const double* a, const double* b, const double* c, double* out) {
  const std::size_t along_a = i.arrays & 1 ? 1 : 0, along_b = i.arrays & 2 ? 1 : 0,
                    along_c = i.arrays & 4 ? 1 : 0;
  for (std::size_t k = 0; k < i.n; ++k) out[k] = apply(i.op, a[k * along_a], b[k * along_b], c[k * along_c]);
}

}  // namespace

using Half = double __attribute__((vector_size(block / 2 * sizeof(double))));
/// In memory, where it may lie at any number, among other doubles.
struct __attribute__((packed, may_alias)) HalfInMemory {
  Half numbers;
};

// Single numbers never go to the output directly; an array may.
#define MAC_A work[i->a]
#define MAC_B work[i->b]
#define MAC_OUT work[i->out]
#define MAC_ARRAYS                                                                     \
  const double *const a = work + i->a, *const b = work + i->b, *const c = work + i->c; \
  double* const out = (i->to_output ? output : work) + i->out;                         \
  const std::size_t n = i->n;                                                          \
  static_cast<void>(a), static_cast<void>(b), static_cast<void>(c), static_cast<void>(n);
#define MAC_HALF(array) (reinterpret_cast<const HalfInMemory*>((array) + k)->numbers)
// The result may take the place of an operand, never lies shifted against it. s: a number beside arrays
#define MAC_EACH(shape, number, expression)                           \
  case shape: {                                                       \
    MAC_ARRAYS                                                        \
    const double one = number;                                        \
    const Half s = {one, one, one, one};                              \
    static_cast<void>(s);                                             \
    for (std::size_t k = 0; k < n; k += block / 2)                    \
      reinterpret_cast<HalfInMemory*>(out + k)->numbers = expression; \
    break;                                                            \
  }
#define MAC_BINARY(op, symbol)                                  \
  case code_of(op, 0):                                          \
    MAC_OUT = MAC_A symbol MAC_B;                               \
    break;                                                      \
    MAC_EACH(code_of(op, 3), 0, MAC_HALF(a) symbol MAC_HALF(b)) \
    MAC_EACH(code_of(op, 1), *b, MAC_HALF(a) symbol s)          \
    MAC_EACH(code_of(op, 2), *a, s symbol MAC_HALF(b))
// Without what lies behind the arrays: a division by zero there would raise a flag.
#define MAC_EXACT(shape, expression)                                              \
  case shape: {                                                                   \
    MAC_ARRAYS                                                                    \
    _Pragma("GCC ivdep") for (std::size_t k = 0; k < n; ++k) out[k] = expression; \
    break;                                                                        \
  }
// the first operand a number or an array, the others arrays
#define MAC_TERNARY(op, of)                                              \
  MAC_EACH(code_of(op, 7), 0, of(MAC_HALF(a), MAC_HALF(b), MAC_HALF(c))) \
  MAC_EACH(code_of(op, 6), *a, of(s, MAC_HALF(b), MAC_HALF(c)))
#define MAC_MUL_ADD(x, y, z) (x) * (y) + (z)
#define MAC_MUL_SUB(x, y, z) (x) * (y) - (z)
#define MAC_SUB_MUL(x, y, z) (z) - (x) * (y)

// The links of a chain of single numbers, and of arrays: x and y are the halves of a block.
#define MAC_LINK(link, expression)        \
  case code_of(link, false): {            \
    const double b = work[l[1]];          \
    static_cast<void>(b), x = expression; \
    break;                                \
  }
#define MAC_HALVES(link, expression_x, expression_y)                               \
  case code_of(link, false): {                                                     \
    const Half bx = MAC_HALF(work + l[1]), by = MAC_HALF(work + l[1] + block / 2); \
    static_cast<void>(bx), static_cast<void>(by);                                  \
    x = expression_x, y = expression_y;                                            \
    break;                                                                         \
  }                                                                                \
  case code_of(link, true): {                                                      \
    const double one = work[l[1]];                                                 \
    const Half bx = {one, one, one, one}, by = bx;                                 \
    static_cast<void>(by);                                                         \
    x = expression_x, y = expression_y;                                            \
    break;                                                                         \
  }

// Few numbers are copied without a call, which a plain loop would become.
#define MAC_COPY(source, target)                                         \
  {                                                                      \
    const double* const from = (source) + piece.from;                    \
    double* const to = (target) + piece.to;                              \
    const std::size_t n = piece.n;                                       \
    if (n > 32) {                                                        \
      std::copy_n(from, n, to);                                          \
      continue;                                                          \
    }                                                                    \
    std::size_t k = 0;                                                   \
    for (; k + block / 2 <= n; k += block / 2) {                         \
      reinterpret_cast<HalfInMemory*>(to + k)->numbers = MAC_HALF(from); \
      asm volatile("" ::: "memory");                                     \
    }                                                                    \
    for (; k < n; ++k) {                                                 \
      to[k] = from[k];                                                   \
      asm volatile("" ::: "memory");                                     \
    }                                                                    \
  }

MAC_VECTOR_CLONES
void run(const Tape& tape, const double* input, double* work, double* output) {
  for (const Run& piece : tape.inputs) MAC_COPY(input, work)
  for (const Instruction *i = tape.instructions.data(), *const end = i + tape.instructions.size(); i != end;
       ++i) {
    switch (i->code) {
      case code_of(Op::chain, 0): {
        double x = MAC_A;
        for (const std::int32_t *l = i->list, *const last = l + 2 * i->b; l != last; l += 2) switch (l[0]) {
            MAC_LINK(Link::add, x + b)
            MAC_LINK(Link::sub, x - b)
            MAC_LINK(Link::sub_from, b - x)
            MAC_LINK(Link::mul, x * b)
            MAC_LINK(Link::div, x / b)
            MAC_LINK(Link::divide, b / x)
            default:
              x = -x;
          }
        MAC_OUT = x;
        break;
      }
      case code_of(Op::chain, 1): {
        MAC_ARRAYS
        for (std::size_t k = 0; k < n; k += block) {
          Half x = MAC_HALF(a), y = MAC_HALF(a + block / 2);
          for (const std::int32_t *l = i->list, *const last = l + 2 * i->b; l != last; l += 2) switch (l[0]) {
              MAC_HALVES(Link::add, x + bx, y + by)
              MAC_HALVES(Link::sub, x - bx, y - by)
              MAC_HALVES(Link::sub_from, bx - x, by - y)
              MAC_HALVES(Link::mul, x * bx, y * by)
              default:
                x = -x, y = -y;
            }
          reinterpret_cast<HalfInMemory*>(out + k)->numbers = x;
          reinterpret_cast<HalfInMemory*>(out + k + block / 2)->numbers = y;
        }
        break;
      }
        MAC_BINARY(Op::add, +)
        MAC_BINARY(Op::sub, -)
        MAC_BINARY(Op::mul, *)
      case code_of(Op::div, 0):
        MAC_OUT = MAC_A / MAC_B;
        break;
        MAC_EXACT(code_of(Op::div, 3), a[k] / b[k])
        MAC_EXACT(code_of(Op::div, 1), a[k] / *b)
        MAC_EXACT(code_of(Op::div, 2), *a / b[k])
        MAC_TERNARY(Op::mul_add, MAC_MUL_ADD)
        MAC_TERNARY(Op::mul_sub, MAC_MUL_SUB)
        MAC_TERNARY(Op::sub_mul, MAC_SUB_MUL)
      case code_of(Op::neg, 0):
        MAC_OUT = -MAC_A;
        break;
        MAC_EACH(code_of(Op::neg, 1), 0, -MAC_HALF(a))
      case code_of(Op::sin, 0):
        MAC_OUT = std::sin(MAC_A);
        break;
      case code_of(Op::cos, 0):
        MAC_OUT = std::cos(MAC_A);
        break;
      case code_of(Op::gather, 0):
      case code_of(Op::gather, 1): {
        MAC_ARRAYS
        gather(*i, a, out);
        break;
      }
      case code_of(Op::segments, 0):
      case code_of(Op::segments, 1): {
        MAC_ARRAYS
        for (std::size_t k = 0; k < n; ++k)
          out[k] = sum_in_lanes(static_cast<std::size_t>(i->list[k + 1] - i->list[k]), a + i->list[k]);
        break;
      }
      case code_of(Op::merge, 0):
      case code_of(Op::merge, 1):
      case code_of(Op::merge, 2):
      case code_of(Op::merge, 3): {
        MAC_ARRAYS
        for (std::size_t k = 0; k < n; ++k) out[k] = i->list[k] >= 0 ? a[i->list[k]] : b[-1 - i->list[k]];
        break;
      }
      default: {
        MAC_ARRAYS
        other(*i, a, b, c, out);
      }
    }
  }
  for (const Run& piece : tape.outputs) MAC_COPY(work, output)
}

}  // namespace mac::equations
