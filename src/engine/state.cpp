#include "tessera/engine/state.hpp"

#include <algorithm>
#include <set>

#include "tessera/model/initialize.hpp"

namespace tessera {

namespace {

/// Elements that one task of `fill` makes.
constexpr std::int64_t kGrain = 1 << 16;

/// Returns which elements of a unit this rank keeps at rest.
StateSlice elements_at_rest(const StepSchedule& schedule, const Resources& resources, UnitId unit) {
  StateSlice slice;
  slice.unit = unit;
  slice.count = schedule.state[unit].elements;
  slice.first = slice.count == schedule.unit(unit).padded ? 0 : resources.index_in(Group::shard) * slice.count;
  slice.runs = runs_in_slice(schedule.model, schedule.unit(unit), slice.first, slice.count);
  return slice;
}

struct Piece {
  TensorId tensor;
  std::int64_t first = 0;
  float* out = nullptr;
  std::int64_t count = 0;
};

/// Adds the pieces of a slice that are to be filled, with values at `values`; sets its padding to zero.
void divide(const StateSlice& slice, float* values, std::vector<Piece>& pieces) {
  std::int64_t end = 0;
  for (const TensorRun& run : slice.runs) {
    std::fill(values + end, values + run.offset, 0.0f);
    end = run.offset + run.count;
    for (std::int64_t done = 0; done < run.count; done += kGrain)
      pieces.push_back({run.tensor, run.first + done, values + run.offset + done, std::min(kGrain, run.count - done)});
  }
  std::fill(values + end, values + slice.count, 0.0f);
}

void fill(ThreadPool& pool, const TensorSource& source, const std::vector<Piece>& pieces) {
  pool.parallel_for(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    source(piece.tensor, piece.first, {piece.out, static_cast<std::size_t>(piece.count)});
  });
}

/// Makes codes of what is kept of a unit's weights in fp8, and finds the largest magnitudes that they have over all
/// ranks, as kernels do of parameters that train.
void make_codes(const StepSchedule& schedule, const Resources& resources, const StateSlice& slice,
                const std::vector<float>& values, std::byte* codes) {
  Kernels& kernels = resources.compute->kernels(Queue::host);
  const auto stream = resources.device->make_caller_stream("codes of frozen weights");
  std::vector<std::int64_t> largest;
  for (const Fp8Weight& weight : schedule.unit(slice.unit).fp8_weights) {
    const std::int64_t begin = std::clamp(weight.offset - slice.first, std::int64_t{0}, slice.count);
    const std::int64_t count = std::min(weight.offset + weight.elements - slice.first, slice.count) - begin;
    const float* const from = values.data() + begin;
    std::int64_t& found = largest.emplace_back(0);
    const DType rounded_to = schedule.policy.compute;
    if (count > 0) kernels.run(*stream, LargestMagnitude{{from}, count, rounded_to, &found});
    found = resources.context.control().maximum(found);
    if (count > 0) kernels.run(*stream, ToCodes{{from}, count, rounded_to, &found, codes + begin});
  }
  resources.device->copy(resources.address(schedule.state[slice.unit].magnitudes), largest.data(),
                         std::ssize(largest) * size_of(DType::int64));
}

/// Sets what is kept of a unit that does not train, rounded to the type that is gathered.
void set_parameters(const StepSchedule& schedule, const Resources& resources, const TensorSource& source, UnitId unit) {
  const StorageId storage = schedule.state[unit].master;
  std::vector<std::byte> stored(static_cast<std::size_t>(schedule.storage(storage).bytes));
  const StateSlice slice = elements_at_rest(schedule, resources, unit);
  std::vector<float> values(static_cast<std::size_t>(slice.count));
  std::vector<Piece> pieces;
  divide(slice, values.data(), pieces);
  fill(resources.compute->pool(), source, pieces);
  if (schedule.unit(unit).is_fp8()) {
    make_codes(schedule, resources, slice, values, stored.data());
  } else {
    convert(values.data(), DType::fp32, stored.data(), schedule.policy.compute, slice.count);
  }
  resources.device->copy(resources.address(storage), stored.data(), static_cast<std::int64_t>(stored.size()));
}

}  // namespace

StateSlice state_slice(const StepSchedule& schedule, const Resources& resources, UnitId unit) {
  TESSERA_ASSERT(!resources.has_left_updates, "state is read before its last update");
  TESSERA_ASSERT(schedule.unit(unit).trains, "unit {} is frozen: it has no state", schedule.unit(unit).name);
  const UnitState& state = schedule.state[unit];
  StateSlice slice = elements_at_rest(schedule, resources, unit);
  const std::vector<StateSpan> spans =
      state_spans(schedule.policy.optimizer, schedule.unit(unit), slice.first, slice.count);
  const DType moments = schedule.policy.moments;
  add_vectors(slice, std::span(spans).first(1), resources.address(state.master), moments);
  add_vectors(slice, std::span(spans).subspan(1), resources.address(state.moments), moments);
  return slice;
}

StateSlice snapshot_slice(const StepSchedule& schedule, const Resources& resources, UnitId unit) {
  TESSERA_ASSERT(schedule.state[unit].snapshot, "unit {} is in no snapshot", schedule.unit(unit).name);
  StateSlice slice;
  slice.unit = unit;
  slice.count = schedule.unit(unit).share(schedule.grid.world());
  // Ranks that hold the same slice are in a row: those of a replica group, or, if the state is unsharded, all.
  slice.first = resources.index_in(Group::replica) * slice.count;
  const std::int64_t in_unit = elements_at_rest(schedule, resources, unit).first + slice.first;
  slice.runs = runs_in_slice(schedule.model, schedule.unit(unit), in_unit, slice.count);
  add_vectors(slice, state_spans(schedule.policy.optimizer, schedule.unit(unit), in_unit, slice.count),
              resources.address(schedule.state[unit].snapshot), schedule.policy.moments);
  return slice;
}

GradientSlice gradient_slice(const StepSchedule& schedule, const Resources& resources, UnitId unit) {
  TESSERA_ASSERT(schedule.state[unit].gradient, "unit {} has no gradient", schedule.unit(unit).name);
  const Value& value = schedule.value(schedule.state[unit].gradient);
  GradientSlice slice;
  slice.unit = unit;
  slice.count = value.elements;
  slice.first = value.placement.shard.has(Group::shard) ? resources.index_in(Group::shard) * value.elements : 0;
  slice.data = resources.address(value.storage);
  slice.dtype = value.dtype();
  slice.runs = runs_in_slice(schedule.model, schedule.unit(unit), slice.first, slice.count);
  return slice;
}

void set_frozen_weights(const StepSchedule& schedule, const Resources& resources, const TensorSource& source) {
  for (const UnitId unit : schedule.layout.units.ids())
    if (!schedule.unit(unit).trains) set_parameters(schedule, resources, source, unit);
}

void set_weights(const StepSchedule& schedule, const Resources& resources, const TensorSource& source) {
  set_frozen_weights(schedule, resources, source);
  std::vector<StateSlice> slices;
  std::vector<std::span<std::byte>> masters;
  for (const UnitId unit : schedule.layout.trained()) {
    const StateSlice& slice = slices.emplace_back(state_slice(schedule, resources, unit));
    masters.push_back(std::as_writable_bytes(std::span(slice.master(), static_cast<std::size_t>(slice.count))));
  }
  // All threads fill all units at once if the host reaches them. Fresh memory is already zero, so moments are not
  // touched: their pages are taken at the first update.
  resources.device->fill_by_host(masters, [&](std::size_t first, std::span<void* const> host) {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < host.size(); ++i) divide(slices[first + i], static_cast<float*>(host[i]), pieces);
    fill(resources.compute->pool(), source, pieces);
  });
}

void set_constants(const StepSchedule& schedule, const Resources& resources) {
  std::set<StorageId> done;
  for (const Value& value : schedule.values) {
    if (value.kind != ValueKind::constant || !done.insert(value.storage).second) continue;
    const std::vector<float> values = constant_values(schedule.model, value.slot);
    resources.device->copy(resources.address(value.storage), values.data(),
                           static_cast<std::int64_t>(values.size() * sizeof(float)));
  }
}

}  // namespace tessera
