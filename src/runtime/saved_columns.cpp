#include "runtime/saved_columns.hpp"

#include <algorithm>
#include <cstdint>
#include <mac/error.hpp>
#include <type_traits>

#include "io/xxh64.hpp"

namespace mac {

namespace {

struct SavedHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t precision;
  std::uint64_t model_id, columns, state_size, outputs, record_size;
  std::uint64_t hash;  // of the records and of this head with a zero here
};
static_assert(sizeof(SavedHead) == saved_head_size && std::is_trivially_copyable_v<SavedHead>);

constexpr char magic[8] = {'M', 'A', 'C', 'S', 'T', 'A', 'T', 'E'};
constexpr std::uint32_t saved_version = 3;

SavedHead head_of(std::span<const std::byte> saved) {
  SavedHead head;
  if (saved.size() < sizeof head)
    throw Error("the saved state has {} bytes, too few for its head of {}", saved.size(), sizeof head);
  std::memcpy(&head, saved.data(), sizeof head);
  if (!std::ranges::equal(head.magic, magic)) throw Error("the buffer does not hold a saved state");
  if (head.version != saved_version)
    throw Error("the saved state has format version {}, this library reads {}", head.version, saved_version);
  return head;
}

std::uint64_t hash_of(SavedHead head, std::span<const std::byte> records) {
  head.hash = 0;
  return content_hash(std::as_bytes(std::span(&head, 1)), content_hash(records, 0));
}

/// The records behind a head; Error unless both are as they were saved.
std::span<const std::byte> records_of(const SavedHead& head, std::span<const std::byte> saved) {
  const std::size_t room = saved.size() - sizeof head;
  if (head.record_size > room || head.columns > room / std::max<std::uint64_t>(head.record_size, 1))
    throw Error("the saved state has {} bytes, too few for its {} columns; is it truncated?", saved.size(),
                head.columns);
  const auto records = saved.subspan(sizeof head, head.columns * head.record_size);
  if (hash_of(head, records) != head.hash)
    throw Error("the saved state is damaged: its checksum does not fit its contents");
  return records;
}

}  // namespace

std::size_t saved_record_size(const RuntimeModel& model) {
  const NetworkShape& shape = model.model.shape;
  const std::size_t number = model.precision() == Precision::float64 ? sizeof(double) : sizeof(float);
  const std::size_t channels = model.model.noise.channels;
  return sizeof(std::uint64_t) + shape.state_size() * number + (2 * shape.d_out + channels) * sizeof(double) +
         (channels > 0 ? 2 * sizeof(std::uint64_t) : 0) +
         (model.model.frame_modes() > 0 ? sizeof(double) : 0);
}

void write_saved_head(const RuntimeModel& model, std::size_t columns, std::span<std::byte> out) {
  const NetworkShape& shape = model.model.shape;
  const std::size_t record = saved_record_size(model);
  SavedHead head{{},          saved_version, static_cast<std::uint32_t>(model.precision()),
                 model.id,    columns,       shape.state_size(),
                 shape.d_out, record,        0};
  std::ranges::copy(magic, head.magic);
  head.hash = hash_of(head, out.subspan(sizeof head, columns * record));
  std::memcpy(out.data(), &head, sizeof head);
}

SavedRecords read_saved(const RuntimeModel& model, std::span<const std::byte> saved) {
  const SavedHead head = head_of(saved);
  if (head.model_id != model.id)
    throw Error("the saved state belongs to another model (id {:016x}) than {} (id {:016x})", head.model_id,
                model.file, model.id);
  if (head.precision != static_cast<std::uint32_t>(model.precision()))
    throw Error("the saved state is of a model opened in {}, this one is opened in {}",
                to_string(static_cast<Precision>(head.precision)), to_string(model.precision()));
  if (head.record_size != saved_record_size(model))
    throw Error("the saved state has {} bytes a column, this model needs {}", head.record_size,
                saved_record_size(model));
  return {head.columns, records_of(head, saved)};
}

std::size_t count_saved(std::span<const std::byte> saved) { return head_of(saved).columns; }

void check_saved(std::span<const std::byte> saved) { records_of(head_of(saved), saved); }

}  // namespace mac
