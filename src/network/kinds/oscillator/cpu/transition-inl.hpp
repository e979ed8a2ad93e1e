// What a step makes of an oscillator layer's states (selective/cpu/scan-inl.hpp says what is asked for).
#if defined(MAC_NETWORK_KINDS_OSCILLATOR_CPU_TRANSITION_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_KINDS_OSCILLATOR_CPU_TRANSITION_INL_
#undef MAC_NETWORK_KINDS_OSCILLATOR_CPU_TRANSITION_INL_
#else
#define MAC_NETWORK_KINDS_OSCILLATOR_CPU_TRANSITION_INL_
#endif

#include "network/cpu/vector_math-inl.hpp"
#include "network/kinds/oscillator/turning_rate.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// A pair of states is a complex number z ← exp(Δ (−a + iω)) z + drive; the factors are the real and imaginary part of that
/// exponential.
template <class T>
struct Turning {
  static constexpr std::size_t kUnit = 2;
  using Unit = Vector<T>[kUnit];

  static HWY_INLINE void factors(Unit& f, Vector<T> delta, const Unit& rate) {
    const auto e = decay<T>(delta, rate[0]);
    Vector<T> cosine, sine;
    turn<T>(delta, rate[1], cosine, sine);
    f[0] = hn::Mul(e, cosine);
    f[1] = hn::Mul(e, sine);
  }
  static HWY_INLINE void advance(Unit& z, const Unit& f, const Unit& drive) {
    const auto real = hn::MulAdd(f[0], z[0], hn::NegMulAdd(f[1], z[1], drive[0]));
    z[1] = hn::MulAdd(f[0], z[1], hn::MulAdd(f[1], z[0], drive[1]));
    z[0] = real;
  }
  static HWY_INLINE void retreat(Unit& d_z, const Unit& f) {
    const auto real = hn::MulAdd(f[0], d_z[0], hn::Mul(f[1], d_z[1]));
    d_z[1] = hn::MulSub(f[0], d_z[1], hn::Mul(f[1], d_z[0]));
    d_z[0] = real;
  }
  /// The rate of turning counts quarters: its exponent is Δ·rate·(π/2).
  static HWY_INLINE void exponents(Unit& q, const Unit& d_z, const Unit& z) {
    constexpr T kQuarter = static_cast<T>(1.57079632679489661923 / 0.69314718055994530942);
    q[0] = hn::MulAdd(d_z[0], z[0], hn::Mul(d_z[1], z[1]));
    q[1] = hn::Mul(hn::Set(Tag<T>(), kQuarter), hn::MulSub(z[0], d_z[1], hn::Mul(z[1], d_z[0])));
  }
  static std::size_t place(std::size_t c, std::size_t n, std::size_t inner, std::size_t states) {
    return oscillator::place_of_rate(c, n, inner, states);
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
