// How a trajectory becomes the rows of a network's input, and the network's outputs become its closure.
//
//   x (sites, features)   from the resolved state y (d) and what is given from outside, e (parameters, forcing)
//   C (c)                 from the outputs u (sites, outputs): C[closure(site, j)] = u[site][j]
//
// A network for the whole state is the case of one site. Everything that feeds a network goes through here, and the
// gradient goes back through read_adjoint, exactly. All in physical units; normalisation is one scale a feature,
// shared by the sites.
#pragma once

#include <cstdint>
#include <mac/network_inputs.hpp>
#include <mac/system.hpp>
#include <optional>

namespace mac {

/// Whether a network with these inputs may see the modes of the system in the frame of the first state.
bool has_frame(const NetworkInputs& inputs, const System& system);

class InputMap {
 public:
  /// All resolved variables, in order.
  explicit InputMap(const System& system);
  /// The same of a system of which only the sizes are known.
  static InputMap plain(std::size_t resolved, std::size_t closures);
  /// Throws UsageError that names what the system or `given`, the names of e, does not have.
  InputMap(const NetworkInputs& inputs, const System& system, const std::vector<std::string>& given);

  std::size_t sites() const { return sites_; }
  std::size_t features() const { return names_.size(); }
  std::size_t outputs() const { return output_names_.size(); }
  std::size_t given_size() const { return given_; }  // numbers of e
  /// x is y, and C is u.
  bool is_plain() const { return plain_; }
  /// Of states that the network sees in frames (fourier_frame.hpp); 0: it sees them as they are. Whoever feeds it turns
  /// them before they are read here, and turns the closures back.
  std::size_t frame_modes() const { return frame_modes_; }

  const std::vector<std::string>& feature_names() const { return names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  /// For each output the feature that is the variable whose equation it is added to; empty where one has none.
  std::vector<std::size_t> targets_among_features() const;
  /// The resolved variable that a feature is, in a network for the whole state.
  std::optional<std::size_t> variable_of(std::size_t feature) const;
  /// Whether a feature is of e, and which number of it that is, in a network for the whole state.
  bool is_given(std::size_t feature) const { return terms_[feature].from_outside; }
  std::size_t given_of(std::size_t feature) const { return terms_[feature].a; }

  /// put(site, feature, value) for all of them; e may be null where no feature is of it.
  template <class Put>
  void read(const double* y, const double* e, const Put& put) const {
    if (plain_) {
      for (std::size_t v = 0; v < names_.size(); ++v) put(std::size_t{0}, v, y[v]);
      return;
    }
    for (std::size_t site = 0; site < sites_; ++site) read_site(site, y, e, put);
  }
  template <class Put>
  void read_site(std::size_t site, const double* y, const double* e, const Put& put) const {
    const std::size_t n = names_.size();
    for (std::size_t f = 0; f < n; ++f) put(site, f, value(terms_[site * n + f], y, e));
  }

  /// d_y (d) += (dx/dy)^T d_x, where d_x(site, feature) is the gradient of a feature.
  template <class Gradient>
  void read_adjoint(const double* y, const Gradient& d_x, double* d_y) const {
    if (plain_) {
      for (std::size_t v = 0; v < names_.size(); ++v) d_y[v] += d_x(std::size_t{0}, v);
      return;
    }
    const std::size_t n = names_.size();
    for (std::size_t k = 0; k < terms_.size(); ++k) add_gradient(terms_[k], y, d_x(k / n, k % n), d_y);
  }

  /// The closure component that an output of a site is.
  std::size_t closure(std::size_t site, std::size_t output) const {
    return plain_ ? output : closures_[site * output_names_.size() + output];
  }

 private:
  static constexpr std::uint32_t nothing = UINT32_MAX;  // beyond a wall where the field is zero
  enum class Operation : std::uint8_t { value, plus, minus, times };
  /// a, or a with b; numbers of y, or of e.
  struct Term {
    std::uint32_t a = nothing, b = nothing;
    Operation operation = Operation::value;
    bool from_outside = false;
  };

  static double at(std::uint32_t k, const double* y) { return k == nothing ? 0 : y[k]; }
  static double value(const Term& term, const double* y, const double* e) {
    if (term.from_outside) return e[term.a];
    const double a = at(term.a, y);
    switch (term.operation) {
      case Operation::value:
        break;
      case Operation::plus:
        return a + at(term.b, y);
      case Operation::minus:
        return a - at(term.b, y);
      case Operation::times:
        return a * at(term.b, y);
    }
    return a;
  }
  static void add_gradient(const Term& term, const double* y, double d_x, double* d_y) {
    if (term.from_outside) return;
    const bool times = term.operation == Operation::times;
    if (term.a != nothing) d_y[term.a] += times ? d_x * at(term.b, y) : d_x;
    if (term.operation == Operation::value || term.b == nothing) return;
    d_y[term.b] += times ? d_x * at(term.a, y) : term.operation == Operation::minus ? -d_x : d_x;
  }

  class Reader;
  InputMap() = default;

  std::size_t sites_ = 1, given_ = 0, frame_modes_ = 0;
  bool plain_ = true;
  std::vector<std::string> names_, output_names_;
  std::vector<Term> terms_;            // (sites, features)
  std::vector<std::size_t> closures_;  // (sites, outputs)
  std::vector<std::size_t> targets_;   // (c): the system's
};

}  // namespace mac
