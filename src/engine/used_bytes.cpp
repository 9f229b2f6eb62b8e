#include "tessera/engine/used_bytes.hpp"

#include <algorithm>

#include "engine/fill.hpp"
#include "tessera/backend/region.hpp"
#include "tessera/base/math.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

static_assert(kTouchPiece == kStorageAlignment, "memory is examined in the pieces in which it is planned");

/// Added to the states of an update: AdamW then moves every parameter by some 100 times the rate, which even 16-bit
/// types show.
constexpr std::array<float, kStateKinds> kPushes{0.0f, 100.0f, 1.0f};

std::vector<std::byte> copy_of(const Resources& resources, std::span<const std::byte> memory) {
  std::vector<std::byte> copy(memory.size());
  resources.device->copy(copy.data(), memory.data(), static_cast<std::int64_t>(memory.size()));
  return copy;
}

void push_states(const StateSlice& slice, const Resources& resources) {
  for (const StateVector& vector : slice.vectors) {
    std::vector<float> values(static_cast<std::size_t>(vector.count));
    const std::int64_t bytes = vector.count * size_of(DType::fp32);
    resources.device->copy(values.data(), vector.data, bytes);
    for (float& value : values) value += kPushes[static_cast<std::size_t>(vector.kind)];
    resources.device->copy(vector.data, values.data(), bytes);
  }
}

constexpr RegionKind kAllRegions[] = {RegionKind::at_rest, RegionKind::shared, RegionKind::private_};

using Pieces = std::vector<bool>;

/// Returns, for each piece of a region, whether it no longer holds the pattern.
Pieces written_pieces(const Resources& resources, std::span<const std::byte> region) {
  constexpr std::int64_t kChunk = std::int64_t{64} << 20;
  Pieces written;
  const auto size = static_cast<std::int64_t>(region.size());
  for (std::int64_t begin = 0; begin < size; begin += kChunk) {
    const auto chunk = copy_of(resources, region.subspan(static_cast<std::size_t>(begin),
                                                         static_cast<std::size_t>(std::min(kChunk, size - begin))));
    const std::span<const std::byte> bytes = chunk;
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(kTouchPiece)) {
      const auto length = std::min(bytes.size() - at, static_cast<std::size_t>(kTouchPiece));
      written.push_back(touched_bytes(bytes.subspan(at, length), begin + static_cast<std::int64_t>(at)) > 0);
    }
  }
  return written;
}

/// Returns, for each piece of a storage of state, whether it is padding of a unit, which no step changes, or space that
/// fuller members need.
Pieces padding_pieces(const StepSchedule& schedule, const Resources& resources, StorageId id) {
  const std::int64_t bytes = schedule.storage(id).bytes;
  Pieces padding(static_cast<std::size_t>(ceil_div(bytes, kTouchPiece)), false);
  const auto of_unit = std::ranges::find_if(
      schedule.values, [&](const Value& value) { return value.storage == id && static_cast<bool>(value.unit); });
  if (of_unit == schedule.values.end()) return padding;
  padding.assign(padding.size(), true);
  const UnitId unit = of_unit->unit;
  const auto mark = [&](std::int64_t first, std::int64_t count) {
    const std::int64_t begin = first * size_of(of_unit->dtype()), end = begin + count * size_of(of_unit->dtype());
    for (std::int64_t piece = begin / kTouchPiece; piece * kTouchPiece < end; ++piece)
      padding[static_cast<std::size_t>(piece)] = false;
  };
  const UnitState& noted = schedule.state[unit];
  if (id == noted.moments || id == noted.snapshot) {
    const StateSlice slice =
        id == noted.moments ? state_slice(schedule, resources, unit) : snapshot_slice(schedule, resources, unit);
    const auto* const base = reinterpret_cast<const float*>(resources.address(id));
    for (const StateVector& vector : slice.vectors) {
      if (id == noted.moments && vector.kind == StateKind::parameter) continue;
      each_run(slice, vector, [&](const TensorRun& run) { mark(vector.at(run.offset) - base, run.count); });
    }
    return padding;
  }
  const std::int64_t count = bytes / size_of(of_unit->dtype());
  const std::int64_t first = count == schedule.unit(unit).padded ? 0 : resources.index_in(Group::shard) * count;
  for (const TensorRun& run : runs_in_slice(schedule.model, schedule.unit(unit), first, count))
    mark(run.offset, run.count);
  return padding;
}

/// Marks the pieces of a storage of state that did not change, apart from padding.
void mark_unchanged(std::span<const std::byte> before, std::span<const std::byte> now, const Pieces& padding,
                    std::int64_t first, Pieces& written) {
  for (std::size_t at = 0; at < now.size(); at += static_cast<std::size_t>(kTouchPiece)) {
    const auto length = std::min(now.size() - at, static_cast<std::size_t>(kTouchPiece));
    const auto* const old = before.data() + at;
    const bool is_padding = padding[at / static_cast<std::size_t>(kTouchPiece)];
    if (!is_padding && std::equal(old, old + length, now.data() + at))
      written[static_cast<std::size_t>((first + static_cast<std::int64_t>(at)) / kTouchPiece)] = false;
  }
}

}  // namespace

UsedBytes::UsedBytes(const StepSchedule& schedule, const Resources& resources)
    : schedule_(schedule), resources_(resources) {
  TESSERA_ASSERT(resources.settings.measure || resources.settings.fill, "regions that were not filled are examined");
  for (const UnitId unit : schedule.layout.units.ids()) push_states(state_slice(schedule, resources, unit), resources);
  for (const StorageId id : schedule.storages.ids()) {
    if (is_state(schedule.storage(id))) state_[id] = copy_of(resources, resources.memory->bytes_of(schedule, id));
  }
}

SpaceUse UsedBytes::read(MemorySpace space) const {
  SpaceUse use;
  const bool known = space == MemorySpace::device || !traits_of(resources_.device->kind()).has_own_memory;
  if (known) use.used = 0;
  for (const RegionKind kind : kAllRegions) {
    const std::span<const std::byte> region = resources_.memory->region(kind, space);
    use.planned += static_cast<std::int64_t>(region.size());
    if (!known || region.empty()) continue;
    Pieces written = written_pieces(resources_, region);
    std::vector<std::string> names(written.size());
    for (const StorageId id : schedule_.storages.ids()) {
      const Storage& storage = schedule_.storage(id);
      if (storage.space != space || storage.region != kind) continue;
      const std::int64_t first = resources_.address(id) - region.data();
      for (std::int64_t at = first; at < first + storage.bytes; at += kTouchPiece)
        names[static_cast<std::size_t>(at / kTouchPiece)] = storage.name;
      if (is_state(storage))
        mark_unchanged(state_.at(id), copy_of(resources_, resources_.memory->bytes_of(schedule_, id)),
                       padding_pieces(schedule_, resources_, id), first, written);
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * kTouchPiece;
      const std::int64_t bytes = std::min(kTouchPiece, static_cast<std::int64_t>(region.size()) - begin);
      (written[i] ? use.used : use.unused[names[i]]) += bytes;
    }
  }
  return use;
}

std::array<SpaceUse, kMemorySpaces> UsedBytes::read() const {
  return {read(MemorySpace::device), read(MemorySpace::host)};
}

namespace {

/// Returns where a category's storages are in a region: offsets, each once, in order.
std::vector<Extent> extents_of(const StepSchedule& schedule, const Resources& resources, Category category,
                               RegionKind kind, MemorySpace space) {
  const std::byte* const start = resources.memory->region(kind, space).data();
  std::vector<Extent> all;
  for (const StorageId id : schedule.storages.ids()) {
    const Storage& storage = schedule.storage(id);
    const bool here = storage.space == space && storage.region == kind;
    if (!here || storage.category != category || storage.bytes == 0) continue;
    const std::int64_t offset = resources.address(id) - start;
    all.push_back({offset, offset + storage.bytes});
  }
  std::sort(all.begin(), all.end(), [](Extent a, Extent b) { return a.begin < b.begin; });
  std::vector<Extent> merged;
  for (const Extent next : all) {
    if (merged.empty() || next.begin > merged.back().end) {
      merged.push_back(next);
    } else {
      merged.back().end = std::max(merged.back().end, next.end);
    }
  }
  return merged;
}

/// Returns the bytes in use within an extent; -1 if that is not known.
std::int64_t bytes_there(const Resources& resources, RegionKind kind, MemorySpace space, Extent extent) {
  const auto memory =
      resources.memory->region(kind, space)
          .subspan(static_cast<std::size_t>(extent.begin), static_cast<std::size_t>(extent.end - extent.begin));
  return space == MemorySpace::host ? measured_bytes(memory) : resources.compute->measured_bytes(memory, extent.begin);
}

}  // namespace

CategoryBytes measured_bytes(const StepSchedule& schedule, const Resources& resources) {
  CategoryBytes bytes{};
  for (std::size_t c = 0; c < kCategories; ++c) {
    for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
      for (const RegionKind kind : kAllRegions) {
        for (const Extent extent : extents_of(schedule, resources, static_cast<Category>(c), kind, space)) {
          const std::int64_t here = bytes_there(resources, kind, space, extent);
          bytes[c] = here < 0 || bytes[c] < 0 ? -1 : bytes[c] + here;
        }
      }
    }
  }
  return bytes;
}

}  // namespace tessera
