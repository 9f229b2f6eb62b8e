// A unit's gradient on its way: made by backward, reduced over the inner group, added over the micro-steps, reduced
// over the replicas, measured for the norm, and brought into the layout that the update reads.
#include <algorithm>

#include "schedule/builder.hpp"

namespace tessera {

void Builder::expect_contributions() {
  // In backward order: the head first.
  for (auto id = static_cast<PartId>(s_.model.parts.size()) - 1; id >= 0; --id) {
    for (const TensorId tensor : s_.part(id).tensors) {
      std::vector<PartId>& owed = owed_parts_[s_.layout.unit_of[static_cast<std::size_t>(tensor)]];
      if (std::find(owed.begin(), owed.end(), id) == owed.end()) owed.push_back(id);
    }
  }
}

/// A tied table whose two contributions are reduced one by one.
bool Builder::contributes_apart(UnitId unit) const {
  return policy_.tied_reduce == TiedReduce::twice && !s_.unit(unit).is_block && owed_parts_.at(unit).size() > 1;
}

/// The fresh whole gradient goes into the inner reduction as it is.
bool Builder::reduces_fresh() const {
  return !trivial(rules_.inner) && (policy_.reduce_each_micro_step || policy_.accumulation == 1);
}

Storage Builder::fresh_gradient_storage(UnitId unit) const {
  const bool reduced = reduces_fresh() || (policy_.accumulation == 1 && !trivial(rules_.outer));
  return {"grad " + s_.unit(unit).name,
          s_.unit(unit).padded * size_of(s_.reduce),
          reduced ? RegionKind::shared : RegionKind::private_,
          Place::device,
          Category::gradients,
          false,
          false};
}

void Builder::contribute(Operation& op, const MicroStepKind& kind) {
  const Part& part = s_.part(op.part);
  std::vector<UnitId> units;
  for (const TensorId tensor : part.tensors) {
    const UnitId unit = s_.layout.unit_of[static_cast<std::size_t>(tensor)];
    if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
  }
  for (const UnitId unit : units) {
    const auto before = gradient_.find(unit);
    if (before != gradient_.end()) {
      Value after = s_.value(before->second);
      after.covers.push_back(op.part);
      before->second = update_in_place(op, before->second, std::move(after));
      continue;
    }
    Value gradient;
    gradient.kind = ValueKind::gradient;
    gradient.unit = unit;
    gradient.dtype = s_.reduce;
    gradient.elements = s_.unit(unit).padded;
    gradient.owed = groups({rules_.inner, rules_.outer});
    gradient.covers = {op.part};
    const bool is_leaf = policy_.accumulation > 1 && !kind.last && kind.merged_slots.empty();
    if (is_leaf && !reduces_fresh() && s_.reduce == DType::fp32 && !contributes_apart(unit) &&
        !partial_.contains(unit)) {
      gradient.storage = accumulator(unit, kind.result_slot, gradient);
      gradient_[unit] = add_value(gradient);
      op.writes.push_back(gradient_[unit]);
    } else {
      gradient_[unit] = write_local(op, fresh_gradient_storage(unit), gradient);
    }
    const auto limit = static_cast<std::size_t>(kGradientStaging);
    if (reduces_fresh() && s_.unit(unit).is_block && staged_.size() >= limit) {
      op.after.push_back({staged_[staged_.size() - limit], EdgeReason::staging});
    }
  }
}

void Builder::finish_ready_gradients(const MicroStepKind& kind, PartId part) {
  for (UnitId unit = static_cast<UnitId>(s_.layout.units.size()) - 1; unit >= 0; --unit) {
    const auto owed = owed_parts_.find(unit);
    if (owed == owed_parts_.end()) continue;
    if (std::find(owed->second.begin(), owed->second.end(), part) == owed->second.end()) continue;
    const bool apart = contributes_apart(unit) || partial_.contains(unit);
    std::erase(owed->second, part);
    if (apart) {
      ValueId piece = gradient_.at(unit);
      if (reduces_fresh()) piece = reduce_scatter(piece, rules_.inner, false, DType::fp32, -1);
      partial_[unit].push_back(piece);
      gradient_.erase(unit);
    }
    if (owed->second.empty()) finish_gradient(kind, unit);
  }
}

/// tied_reduce = twice: the two pieces become one value; in the type and region of the wire if it is reduced further.
ValueId Builder::join_partial(UnitId unit, bool reduction_follows) {
  ValueId sum = partial_.at(unit).front();
  for (std::size_t i = 1; i < partial_.at(unit).size(); ++i) {
    const ValueId piece = partial_.at(unit)[i];
    Operation op;
    op.kind = OperationKind::accumulate;
    op.unit = unit;
    op.reads.push_back(piece);
    Value joined = s_.value(sum);
    joined.covers.insert(joined.covers.end(), s_.value(piece).covers.begin(), s_.value(piece).covers.end());
    if (reduction_follows && s_.storage_of(sum).region != RegionKind::shared) {
      op.reads.push_back(sum);
      joined.dtype = s_.reduce;
      sum = write_local(op, wire_storage(joined), joined);
    } else {
      sum = update_in_place(op, sum, std::move(joined));
    }
    emit(std::move(op));
  }
  return sum;
}

/// Where a gradient that a collective reads next is put.
Storage Builder::wire_storage(const Value& gradient) const {
  return {"summed grad " + s_.unit(gradient.unit).name,
          gradient.elements * size_of(gradient.dtype),
          RegionKind::shared,
          Place::device,
          Category::gradients,
          false,
          false};
}

void Builder::finish_gradient(const MicroStepKind& kind, UnitId unit) {
  const bool apart = partial_.contains(unit);
  const bool accumulates = policy_.accumulation > 1;
  const bool outer_follows = kind.last && !trivial(rules_.outer);
  const bool inner_follows = kind.last && !trivial(rules_.inner) && !reduces_fresh();
  // A finished gradient that is gathered back goes over the wire as it was measured: rounded first, so that what the
  // norm saw (an overflow, say) is what the update applies.
  const bool state_is_whole = trivial(rules_.state);
  const bool inner_is_gathered = kind.last && state_is_whole && !trivial(rules_.inner);
  const DType before_inner_gather = inner_is_gathered && !outer_follows ? s_.reduce : DType::fp32;
  ValueId gradient = -1;
  if (apart) {
    const bool rounds = outer_follows || (inner_is_gathered && reduces_fresh() && s_.reduce != DType::fp32);
    gradient = join_partial(unit, rounds && !accumulates);
  } else {
    gradient = gradient_.at(unit);
    if (reduces_fresh()) {
      const bool is_leaf = accumulates && !kind.last && kind.merged_slots.empty();
      StorageId into = -1;
      if (is_leaf) {
        Value like = s_.value(gradient);
        like.split = groups({rules_.inner});
        like.owed = groups({rules_.outer});
        like.elements /= s_.grid.size(rules_.inner);
        into = accumulator(unit, kind.result_slot, like);
      }
      const bool more = outer_follows && !accumulates;
      gradient = reduce_scatter(gradient, rules_.inner, more, accumulates ? DType::fp32 : before_inner_gather, into);
      if (s_.unit(unit).is_block) staged_.push_back(s_.value(gradient).maker);
    }
  }
  const bool rounds_at_last_merge = inner_is_gathered && reduces_fresh() && s_.reduce != DType::fp32;
  if (accumulates) gradient = accumulate(kind, unit, gradient, inner_follows || outer_follows || rounds_at_last_merge);
  if (!kind.last) return;
  if (inner_follows) gradient = reduce_scatter(gradient, rules_.inner, outer_follows, before_inner_gather, -1);
  if (outer_follows) gradient = reduce_scatter(gradient, rules_.outer, false, s_.reduce, -1);
  pending_norms_.push_back(gradient);
  if (outer_follows) gradient = gather_gradient(gradient, rules_.outer);
  if (inner_is_gathered) gradient = gather_gradient(gradient, rules_.inner);
  make_final(unit, gradient);
}

ValueId Builder::reduce_scatter(ValueId gradient, Group group, bool more_to_reduce, DType finished, StorageId into) {
  const Value source = s_.value(gradient);
  Operation op;
  op.kind = OperationKind::reduce_scatter;
  op.lane = group == Group::replica ? Lane::replica : Lane::reduce;
  op.group = group;
  op.unit = source.unit;
  op.reads.push_back(gradient);
  op.wire_bytes = wire_bytes(source.elements, source.dtype, group);
  Value sum = source;
  sum.elements /= s_.grid.size(group);
  sum.split = source.split.with(group);
  sum.owed = source.owed.without(group);
  sum.dtype = more_to_reduce ? s_.reduce : finished;
  ValueId result = -1;
  if (into >= 0) {
    sum.storage = into;
    result = add_value(std::move(sum));
    op.writes.push_back(result);
  } else {
    const RegionKind region = more_to_reduce ? RegionKind::shared : RegionKind::private_;
    const Storage storage{"shard grad " + s_.unit(source.unit).name,
                          sum.elements * size_of(sum.dtype),
                          region,
                          Place::device,
                          Category::gradients,
                          false,
                          false};
    result = write_local(op, storage, std::move(sum));
  }
  const Value& shard = s_.value(result);
  add_collective_scratch(
      op, reduce_scratch_bytes(way_over(group), s_.grid.size(group), shard.elements, source.dtype, shard.dtype));
  emit(std::move(op));
  return result;
}

ValueId Builder::accumulate(const MicroStepKind& kind, UnitId unit, ValueId fresh, bool reduction_follows) {
  Value like = s_.value(fresh);
  like.dtype = DType::fp32;
  if (kind.merged_slots.empty()) {
    const StorageId target = accumulator(unit, kind.result_slot, like);
    if (s_.value(fresh).storage == target) return fresh;
    Operation op;  // a copy: widens a 16-bit gradient to the accumulator's fp32
    op.kind = OperationKind::accumulate;
    op.unit = unit;
    op.reads.push_back(fresh);
    like.storage = target;
    const ValueId result = add_value(like);
    op.writes.push_back(result);
    emit(std::move(op));
    return result;
  }
  ValueId sum = fresh;
  for (std::size_t i = 0; i < kind.merged_slots.size(); ++i) {
    const int slot = kind.merged_slots[i];
    const bool final_merge = i + 1 == kind.merged_slots.size();
    const ValueId held = current(accumulator(unit, slot, like));
    Operation op;
    op.kind = OperationKind::accumulate;
    op.unit = unit;
    op.reads.push_back(sum);
    if (final_merge && kind.last && reduction_follows) {
      op.reads.push_back(held);
      Value out = like;
      out.dtype = s_.reduce;
      sum = write_local(op, wire_storage(out), out);
    } else if (final_merge && !kind.last && kind.result_slot != slot) {
      op.reads.push_back(held);
      Value out = like;
      out.storage = accumulator(unit, kind.result_slot, like);
      sum = add_value(std::move(out));
      op.writes.push_back(sum);
    } else {
      sum = update_in_place(op, held, like);
    }
    emit(std::move(op));
  }
  return sum;
}

ValueId Builder::gather_gradient(ValueId gradient, Group group) {
  const Value source = s_.value(gradient);
  Operation op;
  op.kind = OperationKind::gather;
  op.lane = group == Group::replica ? Lane::replica : Lane::reduce;
  op.group = group;
  op.unit = source.unit;
  op.reads.push_back(gradient);
  Value whole = source;
  whole.elements *= s_.grid.size(group);
  whole.split = source.split.without(group);
  whole.dtype = s_.reduce;
  op.wire_bytes = wire_bytes(whole.elements, whole.dtype, group);
  const Storage storage{"reduced grad " + s_.unit(source.unit).name,
                        whole.elements * size_of(whole.dtype),
                        RegionKind::shared,
                        Place::device,
                        Category::gradients,
                        false,
                        false};
  const ValueId result = write_local(op, storage, std::move(whole));
  emit(std::move(op));
  return result;
}

void Builder::make_final(UnitId unit, ValueId gradient) {
  const StorageId storage = s_.value(gradient).storage;
  s_.storages[static_cast<std::size_t>(storage)].carried = true;
  final_gradient_[unit] = storage;
  set_entry(storage, s_.value(gradient));
}

void Builder::flush_norms(std::size_t keep) {
  while (pending_norms_.size() > keep) {
    const ValueId gradient = pending_norms_.front();
    pending_norms_.erase(pending_norms_.begin());
    Operation op;
    op.kind = OperationKind::norm;
    op.unit = s_.value(gradient).unit;
    op.reads.push_back(gradient);
    update_in_place(op, current(payload_), s_.value(current(payload_)));
    emit(std::move(op));
  }
}

StorageId Builder::accumulator(UnitId unit, int slot, const Value& like) {
  const auto key = std::make_pair(unit, slot);
  if (const auto it = accumulators_.find(key); it != accumulators_.end()) return it->second;
  const std::string name = fmt::format("sum {} slot {}", s_.unit(unit).name, slot);
  const StorageId storage =
      add_storage({name, like.elements * 4, RegionKind::private_, Place::device, Category::gradients, true, false});
  Value held = like;
  held.dtype = DType::fp32;
  held.covers.clear();
  for (PartId part = 0; part < static_cast<PartId>(s_.model.parts.size()); ++part) {
    for (const TensorId tensor : s_.part(part).tensors) {
      if (s_.layout.unit_of[static_cast<std::size_t>(tensor)] == unit) {
        held.covers.push_back(part);
        break;
      }
    }
  }
  set_entry(storage, held);
  accumulators_[key] = storage;
  return storage;
}

}  // namespace tessera
