// Derivatives of a step through the C interface: against differences of steps, and each other's transpose.
#include <gtest/gtest.h>
#include <mac/mac.h>

#include <cmath>
#include <numeric>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

using Numbers = std::vector<double>;
constexpr std::size_t d = 6, columns = 5;

double dot(const Numbers& a, const Numbers& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
Numbers along(const Numbers& at, double h, const Numbers& direction) {
  Numbers moved = at;
  for (std::size_t i = 0; i < at.size(); ++i) moved[i] += h * direction[i];
  return moved;
}
Numbers normals(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test_data, 1);
  Numbers numbers(count);
  for (double& number : numbers) number = random.normal();
  return numbers;
}
/// The largest difference as a share of the largest number.
double difference(const Numbers& a, const Numbers& b) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i])), size = std::max(size, std::abs(b[i]));
  return most / size;
}

/// What a step takes and gives.
struct Values {
  Numbers of_y, memory;
};

class Derivatives : public ::testing::TestWithParam<LayerKind> {
 protected:
  ~Derivatives() override { close(); }

  void open(mac_precision precision) {
    close();
    ASSERT_EQ(mac_model_open(path_.c_str(), precision, &model_, nullptr), MAC_OK);
    ASSERT_EQ(mac_state_create(model_, columns, &state_, nullptr), MAC_OK);
    Numbers closure(columns * d);
    for (std::size_t t = 0; t < 6; ++t)  // away from rest, where much would be zero
      ASSERT_EQ(mac_step(state_, past_.data() + t * columns * d, closure.data(), nullptr), MAC_OK);
  }
  void close() {
    mac_state_free(state_);
    mac_model_close(model_);
    state_ = nullptr, model_ = nullptr;
  }
  std::size_t memory_size() const { return columns * mac_state_memory_size(state_); }
  Numbers memory(const mac_state* state) const {
    Numbers numbers(memory_size());
    EXPECT_EQ(mac_state_get_memory(state, numbers.data(), nullptr), MAC_OK);
    return numbers;
  }
  /// A step from y and a memory, on a clone.
  Values step(const Numbers& y, const Numbers& from) const {
    mac_state* clone = nullptr;
    EXPECT_EQ(mac_state_clone(state_, &clone, nullptr), MAC_OK);
    EXPECT_EQ(mac_state_set_memory(clone, from.data(), nullptr), MAC_OK);
    Numbers closure(columns * d);
    EXPECT_EQ(mac_step(clone, y.data(), closure.data(), nullptr), MAC_OK);
    const Values result{closure, memory(clone)};
    mac_state_free(clone);
    return result;
  }
  Values tangent(const Numbers& dy, Numbers dmemory) const {
    Numbers dclosure(columns * d);
    EXPECT_EQ(mac_step_tangent(state_, y_.data(), dy.data(), dmemory.data(), dclosure.data(), nullptr),
              MAC_OK);
    return {dclosure, dmemory};
  }
  Values adjoint(const Numbers& gclosure, Numbers gmemory) const {
    Numbers gy(columns * d);
    EXPECT_EQ(mac_step_adjoint(state_, y_.data(), gclosure.data(), gmemory.data(), gy.data(), nullptr),
              MAC_OK);
    return {gy, gmemory};
  }

  ScratchFolder folder_;
  std::string path_ = write_closure(folder_, burgers_closure(GetParam()));
  Numbers past_ = random_inputs(6, columns, d), y_ = normals(columns * d, 2);
  mac_model* model_ = nullptr;
  mac_state* state_ = nullptr;
};

TEST_P(Derivatives, TangentIsThatOfTheStep) {
  open(MAC_FLOAT64);
  const Numbers dy = normals(columns * d, 3), dmemory = normals(memory_size(), 4), before = memory(state_);
  const double h = 1e-5;  // errors h² and 1e-16/h: both near 1e-10
  const Values up = step(along(y_, h, dy), along(before, h, dmemory)),
               down = step(along(y_, -h, dy), along(before, -h, dmemory)), exact = tangent(dy, dmemory);
  const auto slope = [&](const Numbers& a, const Numbers& b) {
    Numbers of(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) of[i] = (a[i] - b[i]) / (2 * h);
    return of;
  };
  EXPECT_LT(difference(exact.of_y, slope(up.of_y, down.of_y)), 1e-7);
  if (memory_size() > 0) {
    EXPECT_LT(difference(exact.memory, slope(up.memory, down.memory)), 1e-7);
  }
  EXPECT_EQ(memory(state_), before) << "the state has changed";
}

TEST_P(Derivatives, AdjointIsTheTransposeOfTheTangent) {
  for (const mac_precision precision : {MAC_FLOAT32, MAC_FLOAT64}) {
    open(precision);
    const Numbers dy = normals(columns * d, 5), dmemory = normals(memory_size(), 6);
    const Numbers gclosure = normals(columns * d, 7), gmemory = normals(memory_size(), 8);
    const Values forward = tangent(dy, dmemory), back = adjoint(gclosure, gmemory);
    const double one = dot(forward.of_y, gclosure) + dot(forward.memory, gmemory),
                 other = dot(back.of_y, dy) + dot(back.memory, dmemory);
    EXPECT_NEAR(one, other, 1e-12 * (std::abs(one) + 1));
  }
}

TEST_P(Derivatives, JacobianHasTheTangentsOfUnitVectors) {
  open(MAC_FLOAT32);
  Numbers jacobian(columns * d * d);
  ASSERT_EQ(mac_step_jacobian(state_, y_.data(), jacobian.data(), nullptr), MAC_OK);
  for (std::size_t k = 0; k < d; ++k) {
    Numbers dy(columns * d);
    for (std::size_t j = 0; j < columns; ++j) dy[j * d + k] = 1;
    const Numbers dclosure = tangent(dy, Numbers(memory_size())).of_y;
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < d; ++i)
        EXPECT_NEAR(jacobian[(j * d + i) * d + k], dclosure[j * d + i], 1e-13);
  }
}

TEST_P(Derivatives, AnyLayoutGivesTheSameBits) {
  open(MAC_FLOAT32);
  const auto turned = [](const Numbers& rows) {  // (columns, d) -> (d, columns)
    Numbers fields(rows.size());
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < d; ++i) fields[i * columns + j] = rows[j * d + i];
    return fields;
  };
  const Numbers v = normals(columns * d, 9), of_memory = normals(memory_size(), 10);
  Numbers in_place = turned(v), y = turned(y_), dmemory = of_memory;
  ASSERT_EQ(mac_step_tangent_strided(state_, y.data(), in_place.data(), columns, 1, dmemory.data(),
                                     in_place.data(), columns, 1, nullptr),
            MAC_OK);
  const Values forward = tangent(v, of_memory);
  EXPECT_EQ(in_place, turned(forward.of_y));
  EXPECT_EQ(dmemory, forward.memory);
  in_place = turned(v), dmemory = of_memory;
  ASSERT_EQ(mac_step_adjoint_strided(state_, y.data(), in_place.data(), columns, 1, dmemory.data(),
                                     in_place.data(), columns, 1, nullptr),
            MAC_OK);
  const Values back = adjoint(v, of_memory);
  EXPECT_EQ(in_place, turned(back.of_y));
  EXPECT_EQ(dmemory, back.memory);
}

/// A window of a toy host: y ← y + 0.1 (closure − y³/9), its end weighed by g. The gradient of g·y_end with
/// respect to first y and first memory comes back along the tape.
TEST_P(Derivatives, TapeGivesTheGradientOfAWindow) {
  constexpr std::size_t window = 12;
  open(MAC_FLOAT64);
  const Numbers g = normals(columns * d, 11), first_memory = memory(state_);
  mac_tape* tape = nullptr;
  ASSERT_EQ(mac_tape_create(model_, columns, window, &tape, nullptr), MAC_OK);
  std::vector<Numbers> path;
  const auto run = [&](Numbers y, const Numbers& from, mac_tape* record) {
    mac_state* clone = nullptr;
    EXPECT_EQ(mac_state_clone(state_, &clone, nullptr), MAC_OK);
    EXPECT_EQ(mac_state_set_memory(clone, from.data(), nullptr), MAC_OK);
    Numbers closure(columns * d);
    for (std::size_t t = 0; t < window; ++t) {
      if (record) path.push_back(y);
      EXPECT_EQ(record ? mac_tape_step(record, clone, y.data(), closure.data(), nullptr)
                       : mac_step(clone, y.data(), closure.data(), nullptr),
                MAC_OK);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += 0.1 * (closure[i] - y[i] * y[i] * y[i] / 9);
    }
    mac_state_free(clone);
    return dot(g, y);
  };
  run(y_, first_memory, tape);
  ASSERT_EQ(mac_tape_steps(tape), window);

  Numbers gy = g, gmemory(memory_size()), gclosure(columns * d), through(columns * d);
  const Numbers dy = normals(columns * d, 12), dmemory = normals(memory_size(), 13);
  for (std::size_t t = window; t-- > 0;) {
    for (std::size_t i = 0; i < gy.size(); ++i) gclosure[i] = 0.1 * gy[i];
    ASSERT_EQ(mac_tape_adjoint(tape, t, gclosure.data(), gmemory.data(), through.data(), nullptr), MAC_OK);
    for (std::size_t i = 0; i < gy.size(); ++i)
      gy[i] = gy[i] * (1 - 0.1 * path[t][i] * path[t][i] / 3) + through[i];
  }
  const double slope = dot(gy, dy) + dot(gmemory, dmemory);

  Numbers v = dy, vmemory = dmemory, dclosure(columns * d);
  for (std::size_t t = 0; t < window; ++t) {
    ASSERT_EQ(mac_tape_tangent(tape, t, v.data(), vmemory.data(), dclosure.data(), nullptr), MAC_OK);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = v[i] * (1 - 0.1 * path[t][i] * path[t][i] / 3) + 0.1 * dclosure[i];
  }
  EXPECT_NEAR(dot(g, v), slope, 1e-12 * (std::abs(slope) + 1));

  const double h = 1e-5, up = run(along(y_, h, dy), along(first_memory, h, dmemory), nullptr),
               down = run(along(y_, -h, dy), along(first_memory, -h, dmemory), nullptr);
  EXPECT_NEAR((up - down) / (2 * h), slope, 1e-7 * std::abs(slope));
  mac_tape_free(tape);
}

TEST_P(Derivatives, WrongUseGetsASentence) {
  open(MAC_FLOAT32);
  mac_error error{};
  mac_tape* tape = nullptr;
  Numbers y(columns * d), closure(columns * d), of_memory(memory_size());
  EXPECT_EQ(mac_tape_create(model_, columns, 0, &tape, &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "a tape of 0 steps of 5 columns was asked for: expected one or more of both");
  ASSERT_EQ(mac_tape_create(model_, columns, 1, &tape, &error), MAC_OK);
  EXPECT_EQ(mac_tape_adjoint(tape, 0, y.data(), of_memory.data(), closure.data(), &error),
            MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_tape_adjoint: step 0 is not on the tape, which has 0");
  ASSERT_EQ(mac_tape_step(tape, state_, y.data(), closure.data(), &error), MAC_OK);
  EXPECT_EQ(mac_tape_step(tape, state_, y.data(), closure.data(), &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "the tape is full: it has room for 1 steps");
  EXPECT_EQ(mac_state_steps(state_), 7u) << "a step that cannot be recorded is not taken";
  mac_tape_clear(tape);
  mac_state* three = nullptr;
  ASSERT_EQ(mac_state_create(model_, 3, &three, &error), MAC_OK);
  EXPECT_EQ(mac_tape_step(tape, three, y.data(), closure.data(), &error), MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "a tape of 5 columns cannot record steps of 3");
  EXPECT_EQ(mac_step_tangent(state_, y.data(), nullptr, of_memory.data(), closure.data(), &error),
            MAC_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "mac_step_tangent: the argument dy is null");
  if (memory_size() > 0) {
    EXPECT_EQ(mac_step_tangent(state_, y.data(), y.data(), nullptr, closure.data(), &error),
              MAC_INVALID_ARGUMENT);
    of_memory.back() = 1e300;
    EXPECT_EQ(mac_state_set_memory(state_, of_memory.data(), &error), MAC_NOT_FINITE);
  }
  mac_state_free(three);
  mac_tape_free(tape);
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, Derivatives, ::testing::ValuesIn(layer_kinds),
                         [](const auto& of) { return std::string(to_string(of.param)); });

}  // namespace
}  // namespace mac::test
