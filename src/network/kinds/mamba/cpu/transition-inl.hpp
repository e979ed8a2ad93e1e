// What a step makes of a Mamba layer's states (selective/cpu/scan-inl.hpp says what is asked for).
#if defined(MAC_NETWORK_KINDS_MAMBA_CPU_TRANSITION_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_KINDS_MAMBA_CPU_TRANSITION_INL_
#undef MAC_NETWORK_KINDS_MAMBA_CPU_TRANSITION_INL_
#else
#define MAC_NETWORK_KINDS_MAMBA_CPU_TRANSITION_INL_
#endif

#include "network/cpu/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// s ← exp(Δ A) s + drive
template <class T>
struct Decaying {
  static constexpr std::size_t kUnit = 1;
  using Unit = Vector<T>[kUnit];

  static HWY_INLINE void factors(Unit& f, Vector<T> delta, const Unit& rate) {
    f[0] = decay<T>(delta, rate[0]);
  }
  static HWY_INLINE void advance(Unit& s, const Unit& f, const Unit& drive) {
    s[0] = hn::MulAdd(f[0], s[0], drive[0]);
  }
  static HWY_INLINE void retreat(Unit& d_s, const Unit& f) { d_s[0] = hn::Mul(d_s[0], f[0]); }
  static HWY_INLINE void exponents(Unit& q, const Unit& d_s, const Unit& s) { q[0] = hn::Mul(d_s[0], s[0]); }
  static std::size_t place(std::size_t c, std::size_t n, std::size_t, std::size_t states) {
    return c * states + n;
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
