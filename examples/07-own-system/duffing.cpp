// A system of one's own: an oscillator in a double well that drags a hidden one along.
//
//   dx/dt = v                      dq/dt = p
//   dv/dt = x - x^3 - d v + k q    dp/dt = x - w^2 q - g p
//
// Resolved: x, v. Reduced model: the same without q. Closure of the equation of v: k q, an echo of x's past.
#include <fmt/format.h>

#include <mac/error.hpp>
#include <mac/own_system.hpp>
#include <mac/run.hpp>

struct Duffing {
  double d, k, w, g;

  explicit Duffing(const mac::ConfigTable& system)
      : d(system.number_or("d", 0.2, mac::non_negative)),
        k(system.number_or("k", 0.8)),
        w(system.number_or("w", 1.5, mac::positive)),
        g(system.number_or("g", 0.5, mac::non_negative)) {}

  std::vector<std::string> resolved_names() const { return {"x", "v"}; }
  std::vector<std::size_t> closure_targets() const { return {1}; }  // the equation of v
  std::size_t full_size() const { return 4; }

  template <class Scalar>
  void reduced_rhs(const Scalar* y, Scalar* dydt) const {
    const Scalar x = y[0], v = y[1];
    dydt[0] = v;
    dydt[1] = x - x * x * x - d * v;
  }

  void full_rhs(const double* z, double* dzdt) const {
    const double x = z[0], q = z[2], p = z[3];
    reduced_rhs(z, dzdt);
    dzdt[1] += k * q;
    dzdt[2] = p;
    dzdt[3] = x - w * w * q - g * p;
  }

  void sample(mac::RandomStream& random, std::span<double> z) const {
    z[0] = random.uniform(-1.5, 1.5);
    z[1] = random.uniform(-1, 1);
    z[2] = z[3] = 0;
  }
};

int main(int argc, char** argv) try {
  if (argc != 3) throw mac::UsageError("usage: duffing EXPERIMENT FOLDER");
  mac::register_system<Duffing>("duffing");
  const mac::Experiment experiment = mac::Experiment::read(argv[1]);
  const mac::RunResult result = mac::run_study(experiment, argv[2], {.threads = 1});
  for (const mac::Table& table : mac::tables(result.evaluation))
    fmt::print("{}\n", mac::render(table, mac::TableFormat::text));
  fmt::print("report: {}\n", result.report);
} catch (const mac::Error& error) {
  fmt::print(stderr, "duffing: {}\n", error.what());
  return 1;
}
