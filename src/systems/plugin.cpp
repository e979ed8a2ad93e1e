#include "systems/plugin.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <mac/plugin.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <mac/config.hpp>
#include <mac/error.hpp>
#include <mac/linear_part.hpp>
#include <mac/own_plugin.hpp>
#include <mac/progress.hpp>
#include <mac/random.hpp>
#include <mac/rk4_solver.hpp>
#include <mutex>
#include <set>

#include "io/input_file.hpp"
#include "systems/read_lattices.hpp"
#include "systems/symmetries.hpp"

namespace mac {

namespace {

constexpr double difference_step = 6e-6;  // about the cube root of double's rounding
constexpr unsigned seconds_to_try = 120;  // each function once: a thousand times what a slow model needs

/// A library's functions and what it says of its system.
struct Library {
  std::string path;
  decltype(&mac_full_rhs) full = nullptr;
  decltype(&mac_reduced_rhs) reduced = nullptr;
  decltype(&mac_sample) sample = nullptr;
  // These may be missing.
  decltype(&mac_reduced_vjp) vjp = nullptr;
  decltype(&mac_reduced_jvp) jvp = nullptr;
  decltype(&mac_linear_part) linear = nullptr;
  decltype(&mac_diagnostics) diagnose = nullptr;

  std::string name, time_unit;
  std::vector<std::string> resolved_names, closure_names, parameter_names;
  std::vector<std::size_t> targets;
  std::vector<Lattice> lattices;
  std::vector<Symmetry> symmetries;
  std::vector<std::string> diagnostic_names;
  std::vector<bool> conserved;  // of each diagnostic
  std::vector<double> defaults;
  std::size_t size = 0, random = 0, warmup_steps = 0;
};

/// dR^/dy_k at y, by central differences.
void difference(const Library& library, const double* p, const double* y, std::size_t k, double* rates) {
  const std::size_t d = library.resolved_names.size();
  const double step = difference_step * (1 + std::abs(y[k]));
  std::vector<double> at(y, y + d), below(d);
  at[k] = y[k] + step;
  library.reduced(p, at.data(), rates);
  at[k] = y[k] - step;
  library.reduced(p, at.data(), below.data());
  for (std::size_t i = 0; i < d; ++i) rates[i] = (rates[i] - below[i]) / (2 * step);
}

/// grad += (dR^/dy)^T adjoint: the library's own, from its tangents, or by central differences.
void add_vjp(const Library& library, const double* p, const double* y, const double* adjoint, double* grad,
             bool by_differences) {
  const std::size_t d = library.resolved_names.size();
  std::vector<double> slopes(d);
  if (library.vjp && !by_differences) {
    library.vjp(p, y, adjoint, slopes.data());
    for (std::size_t k = 0; k < d; ++k) grad[k] += slopes[k];
    return;
  }
  std::vector<double> unit(d);
  for (std::size_t k = 0; k < d; ++k) {
    if (library.jvp && !by_differences) {
      unit[k] = 1;
      library.jvp(p, y, unit.data(), slopes.data());
      unit[k] = 0;
    } else {
      difference(library, p, y, k, slopes.data());
    }
    for (std::size_t i = 0; i < d; ++i) grad[k] += adjoint[i] * slopes[i];
  }
}

/// Why the reduced equations do not have the symmetries that the library declares; empty: they have them.
std::string broken_symmetry(const Library& library, const double* p) {
  for (const Symmetry& symmetry : library.symmetries) {
    const auto reason = why_not(symmetry, library.resolved_names, library.targets,
                                [&](const double* y, double* rates) { library.reduced(p, y, rates); });
    if (reason) return fmt::format("its symmetry {} does not fit: {}", name_of(symmetry.kind), *reason);
  }
  return "";
}

class PluginSystem final : public System, public LinearPart {
 public:
  PluginSystem(std::shared_ptr<const Library> library, const ConfigTable& table) : is_(std::move(library)) {
    table.has("plugin");  // where the library is
    for (std::size_t i = 0; i < is_->parameter_names.size(); ++i)
      p_.push_back(table.number_or(is_->parameter_names[i], is_->defaults[i]));
    if (const std::string fault = broken_symmetry(*is_, p_.data()); !fault.empty())
      table.fail("name", "with these parameters, " + fault);
  }

  std::string_view name() const override { return is_->name; }
  std::string_view time_unit() const override { return is_->time_unit; }
  const std::vector<std::string>& resolved_names() const override { return is_->resolved_names; }
  const std::vector<std::string>& closure_names() const override { return is_->closure_names; }
  std::span<const std::size_t> closure_targets() const override { return is_->targets; }
  std::vector<Lattice> lattices() const override { return is_->lattices; }
  std::vector<Symmetry> symmetries() const override { return is_->symmetries; }
  std::size_t fourier_modes() const override { return modes_of(is_->symmetries, resolved_size()); }

  void reduced_rhs(const double* y, double* dydt) const override { is_->reduced(p_.data(), y, dydt); }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    add_vjp(*is_, p_.data(), y, adjoint, grad_y, false);
  }
  std::vector<double> linear_part() const override {
    if (!is_->linear) return {};
    std::vector<double> linear(resolved_size() * resolved_size());
    is_->linear(p_.data(), linear.data());
    return linear;
  }

  std::size_t full_size() const override { return is_->size; }
  std::size_t warmup_steps() const override { return is_->warmup_steps; }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<Rk4Solver<WithClosure>>(*this, dt, WithClosure{is_, p_, {}});
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (initial) initial->fail("", "this system has one distribution of initial states, its own");
    return std::make_unique<Sampled>(is_, p_);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double> full_state) const override {
    std::vector<double> values(is_->diagnostic_names.size());
    if (!values.empty()) is_->diagnose(p_.data(), full_state.data(), values.data());
    std::vector<Diagnostic> result;
    for (std::size_t i = 0; i < values.size(); ++i)
      result.push_back({is_->diagnostic_names[i], values[i], is_->conserved[i]});
    return result;
  }

 private:
  struct WithClosure {
    std::shared_ptr<const Library> is;
    std::vector<double> p, rates;

    void operator()(const double* z, double* rate, double* closure) {
      rates.resize(is->resolved_names.size());
      is->full(p.data(), z, rate);
      is->reduced(p.data(), z, rates.data());
      for (std::size_t j = 0; j < is->targets.size(); ++j)
        closure[j] = rate[is->targets[j]] - rates[is->targets[j]];
    }
    void resolved(const double* z, double* y) const { std::copy_n(z, is->resolved_names.size(), y); }
  };

  class Sampled final : public InitialCondition {
   public:
    Sampled(std::shared_ptr<const Library> library, std::vector<double> p)
        : is_(std::move(library)), p_(std::move(p)) {}
    void sample(std::size_t, RandomStream& random, std::span<double> state) const override {
      std::vector<double> uniform(is_->random);
      for (double& number : uniform) number = random.uniform();
      is_->sample(p_.data(), uniform.data(), state.data());
    }

   private:
    std::shared_ptr<const Library> is_;
    std::vector<double> p_;
  };

  std::shared_ptr<const Library> is_;
  std::vector<double> p_;
};

// ---- loading

template <class Function>
void find(void* handle, const std::string& path, const char* name, Function& function, bool needed = true) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function && needed) throw UsageError("{}: is no plug-in: it has no function {}", path, name);
}

/// Each once, and none that [system] has for something else.
void expect_names(const ConfigTable& table, const char* key, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.empty() || name == "name" || name == "plugin")
      table.fail(key, fmt::format("\"{}\" is no name for one", name));
    if (std::ranges::count(names, name) > 1) table.fail(key, fmt::format("\"{}\" is there twice", name));
  }
}

void read_description(const char* text, Library& library) {
  const ConfigTable table = ConfigTable::parse(text ? text : "", library.path + " (mac_plugin_system)");
  library.name = table.string("name");
  library.resolved_names = table.strings("resolved");
  if (library.resolved_names.empty()) table.fail("resolved", "needs the name of a variable");
  expect_names(table, "resolved", library.resolved_names);
  library.size = static_cast<std::size_t>(
      table.integer("size", static_cast<std::int64_t>(library.resolved_names.size()), 100'000'000));
  for (const std::string& target : table.strings_or("targets", library.resolved_names)) {
    const auto found = std::ranges::find(library.resolved_names, target);
    if (found == library.resolved_names.end())
      table.fail("targets", fmt::format("\"{}\" is no resolved variable", target));
    library.targets.push_back(static_cast<std::size_t>(found - library.resolved_names.begin()));
    library.closure_names.push_back("C_" + target);
  }
  if (library.targets.empty()) table.fail("targets", "needs a variable whose equation has a closure");
  library.parameter_names = table.strings_or("parameters", {});
  expect_names(table, "parameters", library.parameter_names);
  if (table.has("defaults") || !library.parameter_names.empty())
    library.defaults = table.numbers("defaults", library.parameter_names.size());
  library.random = static_cast<std::size_t>(table.integer_or("random", 0, 0, 100'000'000));
  library.warmup_steps = static_cast<std::size_t>(table.integer_or("warmup_steps", 0, 0, 1'000'000'000));
  library.time_unit = table.string_or("time_unit", "1");
  if (const auto lattices = table.table_if("lattices"))
    library.lattices = read_lattices(*lattices, library.resolved_names);
  library.symmetries = read_symmetries(table);
  library.diagnostic_names = table.strings_or("diagnostics", {});
  expect_names(table, "diagnostics", library.diagnostic_names);
  const std::vector<std::string> conserved = table.strings_or("conserved", {});
  for (const std::string& name : conserved)
    if (std::ranges::count(library.diagnostic_names, name) == 0)
      table.fail("conserved", fmt::format("\"{}\" is none of the diagnostics", name));
  for (const std::string& name : library.diagnostic_names)
    library.conserved.push_back(std::ranges::count(conserved, name) > 0);
  table.reject_unknown_keys();
}

/// An array with numbers around it that nobody should touch.
class Guarded {
 public:
  explicit Guarded(std::size_t n) : n_(n), numbers_(n + 2 * guard, mark) {}
  double* data() { return numbers_.data() + guard; }
  /// What is wrong after a function has filled it.
  std::string fault(const char* function) const {
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const bool inside = i >= guard && i < guard + n_;
      if (!inside && numbers_[i] != mark) return fmt::format("{} writes beyond its {} numbers", function, n_);
      if (inside && numbers_[i] == mark)
        return fmt::format("{} does not set number {} of {}", function, i - guard, n_);
      if (inside && !std::isfinite(numbers_[i]))
        return fmt::format("{} gives {} for number {}", function, numbers_[i], i - guard);
    }
    return "";
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr double mark = -7.25e77;
  std::size_t n_;
  std::vector<double> numbers_;
};

/// What a function gives for derivatives beside differences of mac_reduced_rhs; what is wrong, or nothing.
std::string compare(const Library& library, const char* function, Guarded& given,
                    const std::vector<double>& expected) {
  if (auto fault = given.fault(function); !fault.empty()) return fault;
  double size = 0;
  for (const double value : expected) size = std::max(size, std::abs(value));
  for (std::size_t k = 0; k < expected.size(); ++k)
    if (std::abs(given.data()[k] - expected[k]) > 1e-4 * (1e-6 + size))
      return fmt::format(
          "{} is not the derivative of mac_reduced_rhs: for {} it gives {:g}, differences give {:g}",
          function, library.resolved_names[k], given.data()[k], expected[k]);
  return "";
}

/// Calls everything once. `about(function)` is told what comes next; what is wrong, or nothing.
template <class About>
std::string try_out(const Library& library, const About& about) {
  const std::size_t d = library.resolved_names.size();
  RandomStream random(0, Purpose::diagnosis, 0);
  std::vector<double> uniform(library.random);
  for (double& number : uniform) number = random.uniform();
  const double* const p = library.defaults.data();
  Guarded z(library.size), rate(library.size), reduced(d), gradient(d), tangent(d);
  about("mac_sample");
  library.sample(p, uniform.data(), z.data());
  if (auto fault = z.fault("mac_sample"); !fault.empty()) return fault;
  about("mac_full_rhs");
  library.full(p, z.data(), rate.data());
  if (auto fault = rate.fault("mac_full_rhs"); !fault.empty()) return fault;
  about("mac_reduced_rhs");
  library.reduced(p, z.data(), reduced.data());
  if (auto fault = reduced.fault("mac_reduced_rhs"); !fault.empty()) return fault;
  if (auto fault = broken_symmetry(library, p); !fault.empty()) return fault;
  std::vector<double> weights(d);
  for (double& number : weights) number = random.normal();
  if (library.vjp) {
    about("mac_reduced_vjp");
    std::vector<double> expected(d);
    library.vjp(p, z.data(), weights.data(), gradient.data());
    add_vjp(library, p, z.data(), weights.data(), expected.data(), true);
    if (auto fault = compare(library, "mac_reduced_vjp", gradient, expected); !fault.empty()) return fault;
  }
  if (library.jvp) {
    about("mac_reduced_jvp");
    std::vector<double> expected(d), slopes(d);
    library.jvp(p, z.data(), weights.data(), tangent.data());
    for (std::size_t k = 0; k < d; ++k) {
      difference(library, p, z.data(), k, slopes.data());
      for (std::size_t i = 0; i < d; ++i) expected[i] += slopes[i] * weights[k];
    }
    if (auto fault = compare(library, "mac_reduced_jvp", tangent, expected); !fault.empty()) return fault;
  }
  if (library.linear) {
    about("mac_linear_part");
    Guarded linear(d * d);
    library.linear(p, linear.data());
    if (auto fault = linear.fault("mac_linear_part"); !fault.empty()) return fault;
  }
  if (library.diagnostic_names.empty()) return "";
  about("mac_diagnostics");
  Guarded values(library.diagnostic_names.size());
  library.diagnose(p, z.data(), values.data());
  return values.fault("mac_diagnostics");
}

/// What the child says, to its end; the user may interrupt a function that never comes back.
std::string heard(int end, pid_t child) {
  std::string told;
  for (char buffer[512];;) {
    pollfd waited{end, POLLIN, 0};
    if (interrupted()) ::kill(child, SIGKILL);
    if (::poll(&waited, 1, 100) <= 0) continue;  // nothing yet, or a signal
    const ssize_t n = ::read(end, buffer, sizeof buffer);
    if (n > 0) told.append(buffer, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) return told;
  }
}

/// In a process of its own, so that a crash is a sentence.
void check(const Library& library) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error("{}: no pipe to try the plug-in out: {}", library.path, std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM, SIGTERM, SIGINT, SIGHUP})
      std::signal(signal, SIG_DFL);
    ::alarm(seconds_to_try);
    const auto tell = [&](char what, const std::string& text) {
      const std::string line = what + text + "\n";
      return write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size());
    };
    const std::string fault = try_out(library, [&](const char* function) { tell('>', function); });
    _exit(tell('!', fault) && fault.empty() ? 0 : 1);
  }
  const int failure = errno;
  close(ends[1]);
  const std::string told = child > 0 ? heard(ends[0], child) : "";
  close(ends[0]);
  if (child < 0)
    throw Error("{}: no process to try the plug-in out: {}", library.path, std::strerror(failure));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  throw_if_interrupted();
  // Its exit code alone says nothing: a function that ends the program (Fortran's stop) ends it with 0, too.
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && told.ends_with("!\n")) return;
  if (const std::size_t fault = told.find('!'); WIFEXITED(status) && fault != std::string::npos)
    throw UsageError("{}: {}", library.path, told.substr(fault + 1, told.find('\n', fault) - fault - 1));
  const std::size_t last = told.rfind('>');
  const std::string function =
      last == std::string::npos ? "a function" : told.substr(last + 1, told.find('\n', last) - last - 1);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    throw UsageError("{}: {} has not come back after {} seconds", library.path, function, seconds_to_try);
  if (WIFSIGNALED(status))
    throw UsageError("{}: {} crashes: {}", library.path, function, strsignal(WTERMSIG(status)));
  throw UsageError("{}: {} ends the program", library.path, function);
}

/// A library in C++ finds the functions of this one in the process: those of a module that was opened for itself
/// (Python's) have to be made known to all.
void show_own_functions() {
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&show_own_functions), &own) != 0 && own.dli_fname)
    dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/// A system of mac/own_plugin.hpp; false where the library has none.
bool register_own_system(void* handle, const std::string& path) {
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(handle, "mac_own_plugin_version"));
  if (!version) return false;
  if (const std::string theirs = version(); theirs != own_plugin_version())
    throw UsageError(
        "{}: was made for {}, this program has {}: compile it again with the headers of this version", path,
        theirs, own_plugin_version());
  void (*register_it)() = nullptr;
  find(handle, path, "mac_own_plugin_register", register_it);
  register_it();
  return true;
}

}  // namespace

void load_plugin(const std::string& path) {
  static std::mutex mutex;
  static std::set<std::string> loaded;
  const std::lock_guard lock(mutex);
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  if (error) throw UsageError("{}: there is no such plug-in", path);
  require_file(real);  // the dynamic linker would wait for a pipe, whatever the signal
  if (loaded.contains(real)) return;
  show_own_functions();
  void* const handle = dlopen(real.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw UsageError("{}: cannot be loaded: {}", path, dlerror());
  if (register_own_system(handle, path)) {
    loaded.insert(real);
    return;
  }
  auto library = std::make_shared<Library>();
  library->path = path;
  decltype(&mac_plugin_version) version = nullptr;
  decltype(&mac_plugin_system) system = nullptr;
  find(handle, path, "mac_plugin_version", version);
  if (version() != MAC_PLUGIN_VERSION)
    throw UsageError("{}: was made for version {} of plug-ins, this program has {}", path, version(),
                     MAC_PLUGIN_VERSION);
  find(handle, path, "mac_plugin_system", system);
  find(handle, path, "mac_full_rhs", library->full);
  find(handle, path, "mac_reduced_rhs", library->reduced);
  find(handle, path, "mac_sample", library->sample);
  find(handle, path, "mac_reduced_vjp", library->vjp, false);
  find(handle, path, "mac_reduced_jvp", library->jvp, false);
  find(handle, path, "mac_linear_part", library->linear, false);
  find(handle, path, "mac_diagnostics", library->diagnose, false);
  read_description(system(), *library);
  if (!library->diagnostic_names.empty() && !library->diagnose)
    throw UsageError("{}: declares diagnostics, but has no function mac_diagnostics", path);
  check(*library);
  register_system(library->name, [library](const ConfigTable& table) {
    return std::make_unique<PluginSystem>(library, table);
  });
  loaded.insert(real);
}

void load_plugins(const std::string& list) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) load_plugin(list.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace mac
