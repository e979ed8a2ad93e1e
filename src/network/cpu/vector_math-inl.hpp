// Vector exp, sigmoid, SiLU, softplus and tanh, and sums over lanes in a fixed order.
//
// Everything is built on e^x for x <= 0, so nothing overflows on the way. The largest errors seen against a
// wider format (tests/network/vector_math_test.cpp holds them to these):
//
//                      float     double
//   exp_nonpositive    1.2 ulp   1.2 ulp    (results below the smallest normal number are 0)
//   decay, turn        see below
//   sigmoid            2.5 ulp   2.5 ulp
//   softplus           3.5 ulp   3.5 ulp
//   tanh               3 ulp     3 ulp
//
// NaN in gives NaN out. Included once for each instruction set by hwy/foreach_target.h.
#if defined(MAC_NETWORK_CPU_VECTOR_MATH_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_CPU_VECTOR_MATH_INL_
#undef MAC_NETWORK_CPU_VECTOR_MATH_INL_
#else
#define MAC_NETWORK_CPU_VECTOR_MATH_INL_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vector = hn::Vec<Tag<T>>;

template <class T>
constexpr std::size_t kLanes = hn::MaxLanes(Tag<T>());

/// Numbers of the format T. Polynomials interpolate at Chebyshev nodes, lowest power first.
template <class T>
struct Format;

template <>
struct Format<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kOneBits = 0x3F800000u;
  static constexpr float kRound = 12582912.0f;  // 1.5·2^23: adding it rounds to an integer in the low bits
  static constexpr float kLog2e = 1.44269504f;
  static constexpr float kLn2High = 0.693359375f;  // 10 bits, so that n·kLn2High is exact
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kSmallestExponent = -126.0f;
  // (e^r − 1)/r on |r| <= ln2/2; relative error of e^r 5e-9
  static constexpr float kExp[] = {1.000000011e+00f, 5.000000013e-01f, 1.666650526e-01f,
                                   4.166646501e-02f, 8.369148491e-03f, 1.393364103e-03f};
  // (2^f − 1)/f on |f| <= 1/2; relative error of 2^f 5e-9
  static constexpr float kExp2[] = {6.931471880e-01f, 2.402265076e-01f, 5.550357114e-02f,
                                    9.618082557e-03f, 1.339086336e-03f, 1.545316295e-04f};
  // atanh(s)/s in s² on 0 <= s <= 1/3; relative error 4e-9
  static constexpr float kAtanh[] = {1.000000004e+00f, 3.333316082e-01f, 2.001229762e-01f, 1.398257887e-01f,
                                     1.407888918e-01f};
  // sin(πf/2)/f and (cos(πf/2) − 1)/f² in f² on |f| <= 1/2; relative errors 4e-9 and 7e-10
  static constexpr float kSine[] = {1.570796322e+00f, -6.459634777e-01f, 7.968021765e-02f, -4.602149213e-03f};
  static constexpr float kCosine[] = {-1.233700549e+00f, 2.536694104e-01f, -2.086152834e-02f,
                                      9.067398984e-04f};
};

template <>
struct Format<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kOneBits = 0x3FF0000000000000u;
  static constexpr double kRound = 6755399441055744.0;  // 1.5·2^52
  static constexpr double kLog2e = 1.44269504088896340736;
  static constexpr double kLn2High = 6.93147180369123816490e-01;  // 33 bits
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
  static constexpr double kSmallestExponent = -1022.0;
  // relative error 8e-18
  static constexpr double kExp[] = {
      1.0,
      5.00000000000000555e-01,
      1.66666666666666713e-01,
      4.16666666665731419e-02,
      8.33333333332614105e-03,
      1.38888889324885988e-03,
      1.98412698748004929e-04,
      2.48015043469976862e-05,
      2.75572554257464351e-06,
      2.76263572414472227e-07,
      2.51052063739570109e-08,
  };
  // relative error 8e-18
  static constexpr double kExp2[] = {
      6.93147180559945286e-01, 2.40226506959100972e-01, 5.55041086648215970e-02, 9.61812910760688825e-03,
      1.33335581464169356e-03, 1.54035304417360499e-04, 1.52527338298361192e-05, 1.32154425879216893e-06,
      1.01780624458457737e-07, 7.07258594926922339e-09, 4.45496059818651856e-10,
  };
  // relative error 1.3e-18
  static constexpr double kAtanh[] = {
      1.0,
      3.33333333333330761e-01,
      2.00000000000928740e-01,
      1.42857142727270570e-01,
      1.11111120403738370e-01,
      9.09087041625240289e-02,
      7.69330702115200438e-02,
      6.65018701633731252e-02,
      6.05508436403460887e-02,
      4.16225325593040998e-02,
      8.52208178139069877e-02,
  };
  // relative errors 4e-18 and 5e-19
  static constexpr double kSine[] = {
      1.57079632679489656e+00, -6.45964097506244284e-01, 7.96926262460430079e-02, -4.68175413234097563e-03,
      1.60441150742190910e-04, -3.59864335298230990e-06, 5.63393378153785425e-08,
  };
  static constexpr double kCosine[] = {
      -1.23370055013616975e+00, 2.53669507901047808e-01, -2.08634807633407728e-02, 9.19260274546844654e-04,
      -2.52020390280291777e-05, 4.71067840550522707e-07, -6.32939634496742380e-09,
  };
};

/// c[0] + c[1] x + c[2] x² + ...
template <class T, std::size_t N>
HWY_INLINE Vector<T> polynomial(Vector<T> x, const T (&c)[N]) {
  const Tag<T> d;
  Vector<T> value = hn::Set(d, c[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) value = hn::MulAdd(value, x, hn::Set(d, c[i]));
  return value;
}

/// A number rounded to an integer n by adding kRound; its low bits are n, so a shift makes them an exponent.
template <class T>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<Tag<T>>> exponent_bits(Vector<T> rounded) {
  return hn::ShiftLeft<Format<T>::kMantissaBits>(hn::BitCast(hn::RebindToUnsigned<Tag<T>>(), rounded));
}

/// e^x = 2^n (1 + tail), x = n ln2 + r, |r| <= ln2/2.
template <class T>
struct Exponential {
  Vector<T> power;  // 2^n
  Vector<T> tail;   // e^r − 1
  hn::Mask<Tag<T>> underflow;
};

template <class T>
HWY_INLINE Exponential<T> exponential(Vector<T> x) {
  using F = Format<T>;
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> du;
  const auto rounded = hn::MulAdd(x, hn::Set(d, F::kLog2e), hn::Set(d, F::kRound));
  const auto n = hn::Sub(rounded, hn::Set(d, F::kRound));
  auto r = hn::NegMulAdd(n, hn::Set(d, F::kLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(d, F::kLn2Low), r);
  const auto power = hn::BitCast(d, hn::Add(exponent_bits<T>(rounded), hn::Set(du, F::kOneBits)));
  const auto underflow = hn::Lt(n, hn::Set(d, F::kSmallestExponent));  // false for NaN
  return {power, hn::Mul(r, polynomial(r, F::kExp)), underflow};
}

// Newer instruction sets have smaller numbers: whatever a library of later years adds has the same bits.
#undef MAC_AVX2_OR_NEWER
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define MAC_AVX2_OR_NEWER 1
#else
#define MAC_AVX2_OR_NEWER 0
#endif

#if MAC_AVX2_OR_NEWER

/// 2^x in eighths: x = k/8 + f with |f| <= 1/16. The eight powers 2^(k/8) of [1, 2) are a vector, in which one
/// instruction looks up, so that few terms do for the rest.
struct Eighths {
  static constexpr float kRound = 1572864.0f;  // 1.5·2^20: adding it rounds to eighths
  static constexpr int kShift = 20;            // from k, the low bits of a number rounded so, to an exponent
  // Less what the shift adds to the mantissa; twice, for instructions that look at four bits of k.
  alignas(64) static constexpr std::uint32_t kPowers[] = {
      0x3F800000, 0x3F7B95C2, 0x3F7837F0, 0x3F75FED7, 0x3F7504F3, 0x3F75672A, 0x3F7744FD, 0x3F7AC0C7,
      0x3F800000, 0x3F7B95C2, 0x3F7837F0, 0x3F75FED7, 0x3F7504F3, 0x3F75672A, 0x3F7744FD, 0x3F7AC0C7};
  // (e^r − 1)/r on |r| <= ln2/16; relative error of e^r 1.3e-9, and none at 0
  static constexpr float kExp[] = {1.0f, 0.5f, 1.666666716e-01f, 4.166666791e-02f};
  // (2^f − 1)/f on |f| <= 1/16; relative error of 2^f 4e-8, and none at 0
  static constexpr float kExp2[] = {6.931471825e-01f, 2.402546853e-01f, 5.550801381e-02f};
};

/// 2^(k/8) of a number that was rounded by adding kRound
HWY_INLINE Vector<float> eighth_power(Vector<float> rounded) {
  const hn::RebindToUnsigned<Tag<float>> du;
  const auto bits = hn::BitCast(du, rounded), powers = hn::Load(du, Eighths::kPowers);
#if HWY_TARGET <= HWY_AVX3
  const hn::Vec<hn::RebindToUnsigned<Tag<float>>> power{_mm512_permutexvar_epi32(bits.raw, powers.raw)};
#else
  const hn::Vec<hn::RebindToUnsigned<Tag<float>>> power{_mm256_permutevar8x32_epi32(powers.raw, bits.raw)};
#endif
  return hn::BitCast(Tag<float>(), hn::Add(power, hn::ShiftLeft<Eighths::kShift>(bits)));
}

#endif

/// e^x for x <= 0
template <class T>
HWY_INLINE Vector<T> exp_nonpositive(Vector<T> x) {
#if MAC_AVX2_OR_NEWER
  if constexpr (sizeof(T) == 4) {
    using F = Format<T>;
    const Tag<T> d;
    const auto round = hn::Set(d, Eighths::kRound);
    const auto rounded = hn::MulAdd(x, hn::Set(d, F::kLog2e), round);
    const auto n = hn::Sub(rounded, round);
    auto r = hn::NegMulAdd(n, hn::Set(d, F::kLn2High), x);
    r = hn::NegMulAdd(n, hn::Set(d, F::kLn2Low), r);
    const auto power = eighth_power(rounded);
    const auto value = hn::MulAdd(power, hn::Mul(r, polynomial(r, Eighths::kExp)), power);
    return hn::IfThenZeroElse(hn::Lt(rounded, hn::Set(d, Eighths::kRound + F::kSmallestExponent)), value);
  }
#endif
  const auto e = exponential<T>(x);
  return hn::IfThenZeroElse(e.underflow, hn::MulAdd(e.power, e.tail, e.power));
}

/// e^x − 1 for x <= 0, accurate near 0
template <class T>
HWY_INLINE Vector<T> expm1_nonpositive(Vector<T> x) {
  const Tag<T> d;
  const auto one = hn::Set(d, T(1));
  const auto e = exponential<T>(x);
  const auto value = hn::MulAdd(e.power, e.tail, hn::Sub(e.power, one));
  return hn::IfThenElse(e.underflow, hn::Neg(one), value);
}

/// exp(Δ A) = 2^(Δ a) with Δ >= 0 and a = A·log2(e) <= 0: the one transcendental of the state-space scan, met
/// d_inner·d_state times a token and block, hence the shortest form. Relative error 1.5 ulp plus that of the
/// exponent, |Δ a| ulp/2, which vanishes with the result. Results under 2·(smallest normal) are 0. Where Δ is
/// NaN the result need not be: the state still becomes NaN, through its other term Δ B x.
template <class T>
HWY_INLINE Vector<T> decay(Vector<T> delta, Vector<T> a) {
  const Tag<T> d;
#if MAC_AVX2_OR_NEWER
  if constexpr (sizeof(T) == 4) {
    const auto round = hn::Set(d, Eighths::kRound);
    const auto rounded = hn::MulAdd(delta, a, round);
    const auto f = hn::MulSub(delta, a, hn::Sub(rounded, round));
    const auto power = eighth_power(rounded);
    const auto value = hn::MulAdd(power, hn::Mul(f, polynomial(f, Eighths::kExp2)), power);
    return hn::IfThenZeroElse(hn::Lt(rounded, hn::Set(d, Eighths::kRound - 125)), value);
  }
#endif
  using F = Format<T>;
  const hn::RebindToUnsigned<Tag<T>> du;
  const auto round = hn::Set(d, F::kRound);
  const auto rounded = hn::MulAdd(delta, a, round);
  const auto f = hn::MulSub(delta, a, hn::Sub(rounded, round));
  const auto p = hn::MulAdd(f, polynomial(f, F::kExp2), hn::Set(d, T(1)));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(du, p), exponent_bits<T>(rounded)));
  return hn::IfThenZeroElse(hn::Lt(rounded, hn::Set(d, F::kRound + F::kSmallestExponent + 1)), scaled);
}

/// cos and sin of Δ ω, with r = 2ω/π >= 0: of Δ r quarter turns. The error of each is .75 ulp of 1 and, without
/// fused multiply-adds, |Δ ω| ulp/2. Beyond 2^(mantissa bits − 2) quarter turns they mean nothing.
template <class T>
HWY_INLINE void turn(Vector<T> delta, Vector<T> r, Vector<T>& cosine, Vector<T>& sine) {
  using F = Format<T>;
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> du;
  constexpr int kToSign = static_cast<int>(sizeof(T) * 8) - 2;  // from bit 1
  const auto round = hn::Set(d, F::kRound);
  const auto rounded = hn::MulAdd(delta, r, round);  // its low bits are the number of whole quarters
  const auto f = hn::MulSub(delta, r, hn::Sub(rounded, round)), square = hn::Mul(f, f);
  const auto s = hn::Mul(f, polynomial(square, F::kSine));
  const auto c = hn::MulAdd(square, polynomial(square, F::kCosine), hn::Set(d, T(1)));
  const auto quarters = hn::BitCast(du, rounded), one = hn::Set(du, 1), two = hn::Set(du, 2);
  const auto odd = hn::RebindMask(d, hn::TestBit(quarters, one));
  const auto sign = [&](auto quarter) HWY_ATTR {  // set in the second half of a turn
    return hn::BitCast(d, hn::ShiftLeft<kToSign>(hn::And(quarter, two)));
  };
  sine = hn::Xor(hn::IfThenElse(odd, c, s), sign(quarters));
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), sign(hn::Add(quarters, one)));
}

/// 1/(1 + e^−x)
template <class T>
HWY_INLINE Vector<T> sigmoid(Vector<T> x) {
  const Tag<T> d;
  const auto one = hn::Set(d, T(1));
  const auto e = exp_nonpositive<T>(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

/// log(1 + e^x) = max(x, 0) + 2 atanh(s), s = e/(2 + e), e = e^−|x|; slope receives its derivative,
/// sigmoid(x).
template <class T>
HWY_INLINE Vector<T> softplus(Vector<T> x, Vector<T>& slope) {
  const Tag<T> d;
  const auto zero = hn::Zero(d), one = hn::Set(d, T(1));
  const auto e = exp_nonpositive<T>(hn::Neg(hn::Abs(x)));
  slope = hn::Div(hn::IfThenElse(hn::Lt(x, zero), e, one), hn::Add(one, e));
  const auto s = hn::Div(e, hn::Add(hn::Set(d, T(2)), e));
  const auto atanh = hn::Mul(s, polynomial(hn::Mul(s, s), Format<T>::kAtanh));
  return hn::Add(hn::IfThenElseZero(hn::Gt(x, zero), x), hn::Add(atanh, atanh));
}

template <class T>
HWY_INLINE Vector<T> softplus(Vector<T> x) {
  Vector<T> slope;
  return softplus<T>(x, slope);
}

/// tanh|x| = −m/(2 + m) with m = e^(−2|x|) − 1
template <class T>
HWY_INLINE Vector<T> tanh(Vector<T> x) {
  const Tag<T> d;
  const auto magnitude = hn::Abs(x);
  const auto m = expm1_nonpositive<T>(hn::Neg(hn::Add(magnitude, magnitude)));
  return hn::CopySign(hn::Div(hn::Neg(m), hn::Add(hn::Set(d, T(2)), m)), x);
}

/// Sum of the lanes: the upper half onto the lower half until one is left.
template <class D>
HWY_INLINE hn::TFromD<D> fold_lanes(D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_SCALAR
  static_cast<void>(d);
  return hn::GetLane(v);
#else
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return fold_lanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else if constexpr (sizeof(hn::TFromD<D>) == 4) {
    v = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  } else {
    return hn::GetLane(hn::Add(v, hn::Shuffle01(v)));
  }
#endif
}

/// Load and store of the first count lanes (1 <= count <= lanes); nothing beyond them is touched.
template <class T>
HWY_INLINE Vector<T> load_first(const T* from, std::size_t count) {
  const Tag<T> d;
#if MAC_AVX2_OR_NEWER
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN T lanes[kLanes<T>] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(d, lanes);
#endif
}

template <class T>
HWY_INLINE void store_first(Vector<T> v, T* to, std::size_t count) {
  const Tag<T> d;
#if MAC_AVX2_OR_NEWER
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN T lanes[kLanes<T>];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < count; ++i) to[i] = lanes[i];
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
