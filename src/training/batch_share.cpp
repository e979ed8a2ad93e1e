#include "training/batch_share.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "network/cpu/engine.hpp"
#include "network/cpu/segment_plan.hpp"

namespace mac {

namespace {

using cpu::largest_slot_count;

/// Whether the engine takes a batch as it is: fewer sequences it may cut, by the shape of the whole batch.
bool can_be_shared(const BatchForm& form) { return form.at_once * form.sequences > cpu::largest_cut_batch; }

/// Whether slots are made of whole samples, of which a group has `group_size` and all have `rows` groups. Chains are
/// groups of all samples at the first start, then at the second, ...: which slot a sample's chains fall into repeats with
/// the starts only if their number fits into that of the slots, or the other way round.
bool made_of_samples(const BatchForm& form, std::size_t lanes, std::size_t group_size, std::size_t rows) {
  if (lanes % form.sequences != 0) return false;
  if (!form.chains) return true;
  return form.at_once % group_size == 0 && (largest_slot_count % rows == 0 || rows % largest_slot_count == 0);
}

std::size_t groups_of(std::size_t members, std::size_t group_size) {
  return (members + group_size - 1) / group_size;
}

}  // namespace

BatchShare::BatchShare(const BatchForm& form, std::size_t lanes, Ranks& ranks)
    : form_(form),
      lanes_(lanes),
      group_size_(std::max<std::size_t>(1, lanes / form.sequences)),
      by_samples_(made_of_samples(form, lanes, group_size_, groups_of(form.at_once, group_size_))),
      of_whole_batches_(!by_samples_ && !form.chains && ranks.size() > 1),
      rows_(by_samples_ ? groups_of(form.at_once, group_size_)
                        : groups_of(form.at_once * form.sequences, lanes)),
      residues_(std::min(rows_, largest_slot_count)),
      parts_(can_be_shared(form) && (by_samples_ || of_whole_batches_) ? std::min(residues_, ranks.size())
                                                                       : 1),
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
  if (!by_samples_) {
    samples.resize(form_.samples);
    std::iota(samples.begin(), samples.end(), std::size_t{0});
    return samples;
  }
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
  if (of_whole_batches_)
    plan_groups(sequences, plan);
  else
    plan_samples(sequences, plan);
  return plan;
}

void BatchShare::plan_groups(std::size_t sequences, SlotPlan& plan) const {
  const std::size_t groups = groups_of(sequences, lanes_);
  plan.slots = std::min(groups, largest_slot_count);
  const std::size_t parts = std::min(plan.slots, parts_), mine = ranks_.rank() % parts;
  for (std::size_t part = 0; part < parts; ++part) plan.owner.resize((part + 1) * plan.slots / parts, part);
  for (std::size_t slot = 0; slot < plan.slots; ++slot) {
    if (plan.owner[slot] != mine) continue;
    plan.mine.push_back(slot);
    plan.groups.emplace_back();
    for (std::size_t group = slot; group < groups; group += plan.slots) plan.groups.back().push_back(group);
  }
}

void BatchShare::plan_samples(std::size_t sequences, SlotPlan& plan) const {
  const std::vector<std::size_t> rows = rows_of(ranks_.rank() % parts_);
  const std::size_t once = samples_.size() / (form_.samples / form_.at_once),
                    starts = sequences / (once * form_.sequences);
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
}

std::vector<double> BatchShare::collect(const std::vector<double>& mine, std::size_t width) const {
  if (!by_samples_) return mine;
  std::vector<double> all(form_.samples * width), packed(all.size());
  std::vector<std::size_t> sizes(ranks_.size(), 0);
  std::vector<std::vector<std::size_t>> of_part;
  std::size_t before = 0;
  for (std::size_t part = 0; part < parts_; ++part) {
    of_part.push_back(samples_of(part));
    sizes[part] = of_part.back().size() * width * sizeof(double);
    if (part < ranks_.rank()) before += of_part.back().size() * width;
  }
  if (ranks_.rank() < parts_) std::ranges::copy(mine, packed.begin() + static_cast<std::ptrdiff_t>(before));
  ranks_.gather(reinterpret_cast<std::byte*>(packed.data()), sizes);
  const double* next = packed.data();
  for (const auto& samples : of_part)
    for (const std::size_t sample : samples) {
      std::copy_n(next, width, all.data() + sample * width);
      next += width;
    }
  return all;
}

// Every rank adds up a range of the numbers: it gets that range of every slot, and gives everybody the sum.
template <class T>
void SharedGradient<T>::add_up(const SlotPlan& plan, std::span<T* const> slots, std::size_t size, T* sum) {
  Ranks& ranks = share_->ranks();
  const std::size_t count = ranks.size(), rank = ranks.rank();
  const auto begin = [&](std::size_t r) { return r * size / count; };
  const auto length = [&](std::size_t r) { return begin(r + 1) - begin(r); };
  std::vector<std::size_t> to(count), from(count), sums(count), slots_of(count);
  for (const std::size_t owner : plan.owner) ++slots_of[owner];
  const bool counts = slots_of[rank] > 0;
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

// Group g has rows g*lanes, ... and slot g % slots, whose owner says them to the others.
template <class T>
void SharedGradient<T>::complete(const SlotPlan& plan, T* rows, std::size_t sequences, std::size_t width) {
  Ranks& ranks = share_->ranks();
  const std::size_t lanes = share_->lanes(), groups = (sequences + lanes - 1) / lanes;
  const auto numbers = [&](std::size_t g) { return std::min(lanes, sequences - g * lanes) * width; };
  std::vector<std::size_t> sizes(ranks.size()), at(ranks.size());
  for (std::size_t g = 0; g < groups; ++g) sizes[plan.owner[g % plan.slots]] += numbers(g) * sizeof(T);
  for (std::size_t r = 1; r < at.size(); ++r) at[r] = at[r - 1] + sizes[r - 1] / sizeof(T);
  in_.resize(sequences * width);
  const auto each_group = [&](const auto& fn) {
    std::vector<std::size_t> next = at;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t owner = plan.owner[g % plan.slots];
      fn(owner, rows + g * lanes * width, in_.data() + next[owner], numbers(g));
      next[owner] += numbers(g);
    }
  };
  each_group([&](std::size_t owner, const T* row, T* packed, std::size_t count) {
    if (owner == ranks.rank()) std::copy_n(row, count, packed);
  });
  ranks.gather(reinterpret_cast<std::byte*>(in_.data()), sizes);
  each_group(
      [](std::size_t, T* row, const T* packed, std::size_t count) { std::copy_n(packed, count, row); });
}

template class SharedGradient<float>;
template class SharedGradient<double>;

}  // namespace mac
