#include "training/batch_share.hpp"

#include <algorithm>
#include <cstring>

#include "network/cpu/engine.hpp"

namespace mac {

namespace {

using cpu::largest_slot_count;

/// Chains are groups of all samples at the first start, then at the second, ...: which slot a sample's chains fall
/// into repeats with the starts only if their number fits into that of the slots, or the other way round.
bool can_be_shared(const BatchForm& form, std::size_t group_size, std::size_t rows) {
  if (form.sites > 1) return false;
  if (!form.chains) return true;
  return form.at_once % group_size == 0 && (largest_slot_count % rows == 0 || rows % largest_slot_count == 0);
}

}  // namespace

BatchShare::BatchShare(const BatchForm& form, std::size_t group_size, Ranks& ranks)
    : form_(form),
      group_size_(group_size),
      rows_((form.at_once + group_size - 1) / group_size),
      residues_(std::min(rows_, largest_slot_count)),
      parts_(can_be_shared(form, group_size, rows_) ? std::min(residues_, ranks.size()) : 1),
      ranks_(ranks),
      samples_(samples_of(ranks.rank() % parts_)) {}

std::vector<std::size_t> BatchShare::rows_of(std::size_t part) const {
  const std::size_t first = part * residues_ / parts_, end = (part + 1) * residues_ / parts_;
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < rows_; ++row)
    if (row % residues_ >= first && row % residues_ < end) rows.push_back(row);
  return rows;
}

std::vector<std::size_t> BatchShare::samples_of(std::size_t part) const {
  std::vector<std::size_t> samples;
  for (std::size_t begin = 0; begin < form_.samples; begin += form_.at_once)
    for (const std::size_t row : rows_of(part))
      for (std::size_t i = row * group_size_; i < std::min((row + 1) * group_size_, form_.at_once); ++i)
        samples.push_back(begin + i);
  return samples;
}

const SlotPlan& BatchShare::plan(std::size_t sequences) const {
  const auto [entry, is_new] = plans_.try_emplace(sequences);
  SlotPlan& plan = entry->second;
  if (!is_new) return plan;
  const std::vector<std::size_t> rows = rows_of(ranks_.rank() % parts_);
  const std::size_t once = samples_.size() / (form_.samples / form_.at_once), starts = sequences / once;
  plan.slots = std::min(starts * rows_, largest_slot_count);
  plan.owner.resize(plan.slots);
  for (std::size_t part = 0; part < parts_; ++part)
    for (const std::size_t row : rows_of(part))
      for (std::size_t start = 0; start < starts; ++start)
        plan.owner[(start * rows_ + row) % plan.slots] = part;
  std::map<std::size_t, std::vector<std::size_t>> groups;  // by slot
  for (std::size_t i = 0; i < starts * rows.size(); ++i)
    groups[(i / rows.size() * rows_ + rows[i % rows.size()]) % plan.slots].push_back(i);
  for (auto& [slot, members] : groups) {
    plan.mine.push_back(slot);
    plan.groups.push_back(std::move(members));
  }
  return plan;
}

double BatchShare::sum(const std::vector<double>& mine) const {
  std::vector<double> all(form_.samples), packed;
  std::vector<std::size_t> sizes(ranks_.size(), 0);
  std::vector<std::vector<std::size_t>> of_part;
  std::size_t before = 0;
  for (std::size_t part = 0; part < parts_; ++part) {
    of_part.push_back(samples_of(part));
    sizes[part] = of_part.back().size() * sizeof(double);
    if (part < ranks_.rank()) before += of_part.back().size();
  }
  packed.resize(form_.samples);
  if (ranks_.rank() < parts_) std::ranges::copy(mine, packed.begin() + static_cast<std::ptrdiff_t>(before));
  ranks_.gather(reinterpret_cast<std::byte*>(packed.data()), sizes);
  std::size_t at = 0;
  for (const auto& samples : of_part)
    for (const std::size_t sample : samples) all[sample] = packed[at++];
  double sum = 0;
  for (const double value : all) sum += value;
  return sum;
}

// Every rank adds up a range of the numbers: it gets that range of every slot, and gives everybody the sum.
template <class T>
void SharedGradient<T>::add_up(const SlotPlan& plan, std::span<T* const> slots, std::size_t size, T* sum) {
  Ranks& ranks = share_->ranks();
  const std::size_t count = ranks.size(), rank = ranks.rank();
  const auto begin = [&](std::size_t r) { return r * size / count; };
  const auto length = [&](std::size_t r) { return begin(r + 1) - begin(r); };
  const bool counts = rank < share_->parts();
  std::vector<std::size_t> to(count), from(count), sums(count), slots_of(count);
  for (const std::size_t owner : plan.owner) ++slots_of[owner];
  for (std::size_t r = 0; r < count; ++r) {
    to[r] = counts ? slots.size() * length(r) * sizeof(T) : 0;
    from[r] = slots_of[r] * length(rank) * sizeof(T);
    sums[r] = length(r) * sizeof(T);
  }
  out_.resize(counts ? slots.size() * size : 0);
  in_.resize(plan.slots * length(rank));
  T* next = out_.data();
  for (std::size_t r = 0; r < count && counts; ++r)
    for (const T* slot : slots) next = std::copy_n(slot + begin(r), length(r), next);
  ranks.exchange(reinterpret_cast<const std::byte*>(out_.data()), to,
                 reinterpret_cast<std::byte*>(in_.data()), from);

  std::vector<std::size_t> at(count);  // the next slot of each rank in in_
  for (std::size_t r = 1; r < count; ++r) at[r] = at[r - 1] + slots_of[r - 1];
  T* const mine = sum + begin(rank);
  for (std::size_t slot = 0; slot < plan.slots; ++slot) {
    const T* const numbers = in_.data() + at[plan.owner[slot]]++ * length(rank);
    if (slot == 0)
      std::copy_n(numbers, length(rank), mine);
    else
      for (std::size_t i = 0; i < length(rank); ++i) mine[i] += numbers[i];
  }
  ranks.gather(reinterpret_cast<std::byte*>(sum), sums);
}

template class SharedGradient<float>;
template class SharedGradient<double>;

}  // namespace mac
