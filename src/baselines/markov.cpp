// The Markovian reduced model: dy/dt = R^(y), no closure (paper, sec_rom; eq. (2), eq_rom1, without C).
#include <algorithm>
#include <mac/rollout.hpp>

namespace mac {

namespace {

class NoClosure final : public ClosureGroup {
 public:
  explicit NoClosure(std::size_t size) : size_(size) {}
  void predict(std::size_t, const double*, double* closure) override { std::fill_n(closure, size_, 0.0); }

 private:
  std::size_t size_;
};

class Markov final : public ClosureModel {
 public:
  std::string name() const override { return "markov"; }
  HeldClosure held() const override { return {}; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t, std::size_t count) const override {
    return std::make_unique<NoClosure>(count * split.closure_size());
  }
};

}  // namespace

std::unique_ptr<ClosureModel> make_markov() { return std::make_unique<Markov>(); }

}  // namespace mac
