// A field that ranks share, without the ranks: each owns a block of the grid and a state for its columns. What one
// decomposition saved, another restores, and the run goes on bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/runtime.hpp>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

constexpr std::size_t d = 6, nx = 12, ny = 10;

/// The part of the grid that a rank owns.
struct Block {
  std::size_t x, y, width, height;
  std::size_t cells() const { return width * height; }
  /// The place on the grid of its k-th column.
  std::size_t cell(std::size_t k) const { return x + k % width + nx * (y + k / width); }
};

/// across x down blocks, as even as can be.
std::vector<Block> decomposition(std::size_t across, std::size_t down) {
  std::vector<Block> blocks;
  const auto edge = [](std::size_t n, std::size_t parts, std::size_t k) { return k * n / parts; };
  for (std::size_t j = 0; j < down; ++j)
    for (std::size_t i = 0; i < across; ++i)
      blocks.push_back({edge(nx, across, i), edge(ny, down, j), edge(nx, across, i + 1) - edge(nx, across, i),
                        edge(ny, down, j + 1) - edge(ny, down, j)});
  return blocks;
}

/// What a rank leaves behind: which cells, and their memory.
struct Saved {
  std::vector<std::size_t> cells;
  std::vector<std::byte> memory;
};

/// du/dt = diffusion over the neighbours + closure, variables in fields of their own with a halo of one cell.
class Field {
 public:
  static constexpr std::size_t row = nx + 2, points = row * (ny + 2);

  Field(const runtime::Model& model, const std::vector<Block>& blocks) : blocks_(blocks) {
    for (const Block& block : blocks) states_.push_back(model.state(block.cells()));
    for (std::size_t v = 0; v < d; ++v)
      for (std::size_t cell = 0; cell < nx * ny; ++cell)
        at(u_, v, cell) = 0.3 * std::sin(static_cast<double>(1 + v + 3 * (cell % nx) + 7 * (cell / nx)));
  }

  void step() {
    for (std::size_t rank = 0; rank < blocks_.size(); ++rank) {
      const Block& block = blocks_[rank];
      std::vector<const double*> in;
      std::vector<double*> out;
      for (std::size_t v = 0; v < d; ++v) {
        in.push_back(&at(u_, v, block.cell(0)));
        out.push_back(&at(closure_, v, block.cell(0)));
      }
      states_[rank].step_fields({block.width, block.height, 1}, in, {1, row, 0}, out, {1, row, 0});
    }
    exchange_halos();
    const std::vector<double> old = u_;
    for (std::size_t v = 0; v < d; ++v)
      for (std::size_t cell = 0; cell < nx * ny; ++cell) {
        const std::size_t p = place(v, cell);
        u_[p] +=
            0.05 * (old[p - 1] + old[p + 1] + old[p - row] + old[p + row] - 4 * old[p]) + 0.1 * closure_[p];
      }
  }

  std::vector<Saved> save() const {
    std::vector<Saved> saved;
    for (std::size_t rank = 0; rank < blocks_.size(); ++rank) {
      Saved& part = saved.emplace_back();
      for (std::size_t k = 0; k < blocks_[rank].cells(); ++k) part.cells.push_back(blocks_[rank].cell(k));
      part.memory = states_[rank].save();
    }
    return saved;
  }

  /// Every rank takes its cells from whoever saved them.
  void restore(const std::vector<double>& u, const std::vector<Saved>& saved) {
    u_ = u;
    for (std::size_t rank = 0; rank < blocks_.size(); ++rank)
      for (const Saved& part : saved) {
        std::vector<std::size_t> from, to;
        for (std::size_t k = 0; k < blocks_[rank].cells(); ++k)
          if (const auto found = std::ranges::find(part.cells, blocks_[rank].cell(k));
              found != part.cells.end()) {
            from.push_back(static_cast<std::size_t>(found - part.cells.begin()));
            to.push_back(k);
          }
        states_[rank].restore_columns(part.memory, from, to);
      }
  }

  const std::vector<double>& u() const { return u_; }
  std::uint64_t least_steps() const {
    std::uint64_t least = ~0ull;
    for (const runtime::State& state : states_)
      for (std::size_t j = 0; j < state.columns(); ++j) least = std::min(least, state.steps(j));
    return least;
  }

 private:
  static std::size_t place(std::size_t v, std::size_t cell) {
    return v * points + cell % nx + 1 + row * (cell / nx + 1);
  }
  static double& at(std::vector<double>& field, std::size_t v, std::size_t cell) {
    return field[place(v, cell)];
  }

  void exchange_halos() {  // of a periodic grid
    for (std::size_t v = 0; v < d; ++v) {
      double* const u = u_.data() + v * points;
      for (std::size_t j = 1; j <= ny; ++j)
        u[j * row] = u[j * row + nx], u[j * row + nx + 1] = u[j * row + 1];
      for (std::size_t i = 0; i < row; ++i) u[i] = u[ny * row + i], u[(ny + 1) * row + i] = u[row + i];
    }
  }

  std::vector<Block> blocks_;
  std::vector<runtime::State> states_;
  std::vector<double> u_ = std::vector<double>(d * points), closure_ = std::vector<double>(d * points);
};

TEST(Decomposition, OfAFieldChangesBetweenRunsWithoutChangingABit) {
  const ScratchFolder folder;
  for (const LayerKind kind : {LayerKind::mamba, LayerKind::gru}) {
    const runtime::Model model(
        write_closure(folder, burgers_closure(kind), std::string(to_string(kind)) + ".safetensors"));
    Field whole(model, decomposition(1, 1));
    Field four(model, decomposition(2, 2));
    for (int n = 0; n < 9; ++n) whole.step(), four.step();
    EXPECT_EQ(four.u(), whole.u()) << "four ranks";
    const std::vector<Saved> saved = four.save();
    const std::vector<double> at_restart = four.u();
    for (int n = 0; n < 9; ++n) whole.step();
    for (const auto& [across, down] : {std::pair{1, 3}, {7, 1}, {2, 2}}) {
      Field other(model, decomposition(static_cast<std::size_t>(across), static_cast<std::size_t>(down)));
      other.restore(at_restart, saved);
      EXPECT_EQ(other.least_steps(), 9u);
      for (int n = 0; n < 9; ++n) other.step();
      EXPECT_EQ(other.u(), whole.u()) << to_string(kind) << " on " << across * down << " ranks";
      EXPECT_EQ(other.least_steps(), 18u);
    }
    // A memory that goes to the wrong cells shows.
    std::vector<Saved> shuffled = saved;
    std::ranges::reverse(shuffled[0].cells);
    Field wrong(model, decomposition(1, 3));
    wrong.restore(at_restart, shuffled);
    for (int n = 0; n < 9; ++n) wrong.step();
    EXPECT_NE(wrong.u(), whole.u());
  }
}

}  // namespace
}  // namespace mac::test
