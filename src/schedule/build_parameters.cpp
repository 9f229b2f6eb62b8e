// Whole copies of parameters: gathered from the shards, as long as the strategy's rules keep them; and the update,
// which makes them stale.
#include <algorithm>

#include "schedule/builder.hpp"

namespace tessera {

/// Nothing to gather and nothing to cast: compute reads the master weights themselves.
bool Builder::reads_master_directly(UnitId) const { return trivial(rules_.state) && policy_.compute == DType::fp32; }

void Builder::emit_gather(UnitId unit, std::vector<Edge> after) {
  const ValueId source = master(unit);
  Operation op;
  op.kind = OperationKind::gather;
  op.lane = Lane::gather;
  op.group = trivial(rules_.state) ? Group::self : rules_.state;
  op.unit = unit;
  op.after = std::move(after);
  read(op, source);
  Value whole;
  whole.kind = ValueKind::parameter;
  whole.unit = unit;
  whole.dtype = policy_.compute;
  whole.elements = s_.unit(unit).padded;
  whole.version = s_.value(source).version;
  op.wire_bytes = wire_bytes(whole.elements, whole.dtype, op.group);
  const auto index = static_cast<std::size_t>(unit);
  const bool of_training = open_->role == SegmentRole::micro_step;
  const StorageId carried = rest_parameter_[index] >= 0 ? rest_parameter_[index]
                            : of_training               ? step_parameter_[index]
                                                        : -1;
  if (carried >= 0) {
    whole.storage = carried;
    whole_[unit] = add_value(whole);
    op.writes.push_back(whole_[unit]);
  } else {
    const std::int64_t bytes = whole.elements * size_of(whole.dtype);
    whole_[unit] = write_local(op,
                               {"whole " + s_.unit(unit).name, bytes, RegionKind::shared, Place::device,
                                Category::gathered_units, false, false},
                               whole);
  }
  emit(std::move(op));
}

ValueId Builder::whole_parameter(UnitId unit) {
  const auto index = static_cast<std::size_t>(unit);
  if (reads_master_directly(unit)) return master(unit);
  if (const auto it = whole_.find(unit); it != whole_.end()) return it->second;
  if (rest_parameter_[index] >= 0) return current(rest_parameter_[index]);
  TESSERA_ASSERT(step_parameter_[index] >= 0, "unit {} is read before it was gathered", s_.unit(unit).name);
  return current(step_parameter_[index]);
}

bool Builder::has_prologue() const {
  return std::ranges::any_of(rest_parameter_, [](StorageId storage) { return storage >= 0; });
}

SegmentId Builder::prologue() {
  open_segment(SegmentRole::prologue, "prologue");
  for (UnitId unit = 0; unit < static_cast<UnitId>(rest_parameter_.size()); ++unit) emit_gather(unit, {});
  return close_segment();
}

void Builder::emit_payload_reduction() {
  if (trivial(Group::world)) return;
  Operation op;
  op.kind = OperationKind::all_reduce;
  op.lane = Lane::reduce;
  op.group = Group::world;
  const ValueId before = current(payload_);
  Value after = s_.value(before);
  after.owed = {};
  // 2 (n-1)/n of the payload, as a ring would send; reported apart from parameters and gradients.
  op.wire_bytes = 2 * after.elements * size_of(DType::int64) * (s_.grid.world() - 1) / s_.grid.world();
  update_in_place(op, before, after);
  add_collective_scratch(op, all_reduce_scratch_bytes(way_over(op.group), s_.grid.world(), after.elements));
  emit(std::move(op));
}

SegmentId Builder::update() {
  open_segment(SegmentRole::update, "update");
  emit_payload_reduction();
  Operation clip;
  clip.kind = OperationKind::clip;
  read(clip, current(payload_));
  Value coefficient;
  coefficient.kind = ValueKind::scalar;
  coefficient.storage = scalars_;
  const ValueId clipped = add_value(coefficient);
  clip.writes.push_back(clipped);
  emit(std::move(clip));

  // In forward order, so that the copies that the next step reads first are made first.
  for (UnitId unit = 0; unit < static_cast<UnitId>(s_.layout.units.size()); ++unit) {
    const auto index = static_cast<std::size_t>(unit);
    Operation op;
    op.kind = OperationKind::update;
    op.unit = unit;
    read(op, current(final_gradient_.at(unit)));
    read(op, clipped);
    Value master = s_.value(current(master_[index]));
    master.version += 1;
    Value moments = s_.value(current(moments_[index]));
    moments.version += 1;
    update_in_place(op, current(master_[index]), master);
    update_in_place(op, current(moments_[index]), moments);
    emit(std::move(op));
    if (rest_parameter_[index] >= 0) emit_gather(unit, {});
  }
  return close_segment();
}

}  // namespace tessera
