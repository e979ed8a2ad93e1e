// The C++ interface to couplers (mac/mac.h): a host whose step is not the closure step.
//
//   mac::runtime::Coupler coupler(model.state(columns), host_step);
//   coupler.begin(y);                       // a host step begins at y, (columns, inputs)
//   coupler.closure(0.5, closure);          // the closure, (columns, outputs), in its middle
#pragma once

#include <cstring>
#include <mac/runtime.hpp>

namespace mac::runtime {

struct CouplerOptions {
  std::optional<double> closure_step = std::nullopt;  // the model's
  Hold hold = Hold::zero;                             // or linear
};

/// Steps a state of its own. Can be moved, not copied.
class Coupler {
 public:
  /// Limits and resting columns are those that the state came with. Throws where neither step is a multiple of
  /// the other.
  Coupler(State state, double host_step, const CouplerOptions& options = {}) : state_(std::move(state)) {
    mac_coupler* created = nullptr;
    detail::call(mac_coupler_create, state_.get(), host_step, options.closure_step.value_or(0),
                 static_cast<mac_hold>(options.hold), &created);
    handle_.reset(created);
  }

  /// Host steps in a closure step, and closure steps in a host step; one of the two is 1.
  std::size_t host_steps() const { return mac_coupler_host_steps(handle_.get()); }
  std::size_t closure_steps() const { return mac_coupler_closure_steps(handle_.get()); }
  const State& state() const { return state_; }

  /// A host step begins at y, (columns, inputs).
  void begin(std::span<const double> y) {
    detail::expect_size("y", y.size(), state_.columns() * state_.inputs());
    detail::call(mac_coupler_begin, handle_.get(), y.data());
  }
  /// The closure, (columns, outputs), at a fraction of that host step, 0 its start and 1 its end.
  void closure(double fraction, std::span<double> closure) const {
    detail::expect_size("closure", closure.size(), state_.columns() * state_.outputs());
    detail::call(mac_coupler_closure, handle_.get(), fraction, closure.data());
  }

  // The same where the host's numbers lie: strides as those of State::step, fields as those of State::step_fields.
  void begin(const double* y, Stride stride) {
    detail::call(mac_coupler_begin_strided, handle_.get(), y, stride.component, stride.column);
  }
  void begin(const float* y, Stride stride) {
    detail::call(mac_coupler_begin_strided_float, handle_.get(), y, stride.component, stride.column);
  }
  void begin_fields(const std::array<std::size_t, 3>& extents, std::span<const double* const> y,
                    const std::array<std::ptrdiff_t, 3>& strides) {
    detail::expect_size("the list of fields y", y.size(), state_.inputs());
    detail::call(mac_coupler_begin_fields, handle_.get(), extents.data(), y.data(), strides.data());
  }
  void begin_fields(const std::array<std::size_t, 3>& extents, std::span<const float* const> y,
                    const std::array<std::ptrdiff_t, 3>& strides) {
    detail::expect_size("the list of fields y", y.size(), state_.inputs());
    detail::call(mac_coupler_begin_fields_float, handle_.get(), extents.data(), y.data(), strides.data());
  }
  void closure(double fraction, double* closure, Stride stride) const {
    detail::call(mac_coupler_closure_strided, handle_.get(), fraction, closure, stride.component,
                 stride.column);
  }
  void closure(double fraction, float* closure, Stride stride) const {
    detail::call(mac_coupler_closure_strided_float, handle_.get(), fraction, closure, stride.component,
                 stride.column);
  }
  void closure_fields(double fraction, const std::array<std::size_t, 3>& extents,
                      std::span<double* const> closure, const std::array<std::ptrdiff_t, 3>& strides) const {
    detail::expect_size("the list of fields closure", closure.size(), state_.outputs());
    detail::call(mac_coupler_closure_fields, handle_.get(), fraction, extents.data(), closure.data(),
                 strides.data());
  }
  void closure_fields(double fraction, const std::array<std::size_t, 3>& extents,
                      std::span<float* const> closure, const std::array<std::ptrdiff_t, 3>& strides) const {
    detail::expect_size("the list of fields closure", closure.size(), state_.outputs());
    detail::call(mac_coupler_closure_fields_float, handle_.get(), fraction, extents.data(), closure.data(),
                 strides.data());
  }

  /// Coupler and memory as bytes for a restart file: the saved state, then mac_coupler_numbers doubles.
  std::vector<std::byte> save() const {
    std::vector<double> numbers(mac_coupler_numbers(handle_.get()));
    detail::call(mac_coupler_save, static_cast<const mac_coupler*>(handle_.get()), numbers.data());
    std::vector<std::byte> saved = state_.save();
    const auto tail = std::as_bytes(std::span(numbers));
    saved.insert(saved.end(), tail.begin(), tail.end());
    return saved;
  }
  /// What was saved goes on bit for bit. Where it does not belong here, nothing changes.
  void restore(std::span<const std::byte> saved) {
    std::vector<double> numbers(mac_coupler_numbers(handle_.get()));
    const std::size_t bytes = state_.saved_size();
    if (saved.size() != bytes + numbers.size() * sizeof(double))
      throw Error(MAC_BAD_STATE, "the saved coupler has " + std::to_string(saved.size()) +
                                     " bytes: expected " +
                                     std::to_string(bytes + numbers.size() * sizeof(double)));
    std::memcpy(numbers.data(), saved.data() + bytes, numbers.size() * sizeof(double));
    const State before = state_;
    state_.restore(saved.first(bytes));
    try {
      detail::call(mac_coupler_restore, handle_.get(), numbers.data());
    } catch (const Error&) {
      state_.copy(before);
      throw;
    }
  }

 private:
  struct Free {
    void operator()(mac_coupler* coupler) const { mac_coupler_free(coupler); }
  };

  State state_;
  std::unique_ptr<mac_coupler, Free> handle_;  // steps what state_ stands for
};

}  // namespace mac::runtime
