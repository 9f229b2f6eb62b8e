// The pass over generation: the forward of the same parts, on a chunk of prompts or on one token of each sequence.
// Caches of keys and values stay in memory between plays.

#include "schedule/passes/compute.hpp"

namespace tessera {

SegmentId Compute::write_generation(SegmentRole role) {
  begin(role, std::string(name_of(role)));
  const auto steps = compute_order(*model_, w_.schedule().layout, {}, false);
  const GatherPlan gathers = plan(steps, false, true, policy_);
  emit_gathers(gathers, 0, {});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const OperationId id = steps[i].is_head ? logits(steps[i]) : forward(steps[i]);
    emit_gathers(gathers, static_cast<std::int64_t>(i) + 1, id);
  }
  return w_.close_segment();
}

StorageId Compute::cache(const Part& part, PartId id) {
  const auto found = caches_.find(id);
  if (found != caches_.end()) return found->second;
  Value value;
  value.kind = ValueKind::cache;
  value.part = id;
  value.placement.dtype = w_.schedule().compute;
  value.elements = model_->cache_elements();
  return caches_[id] = w_.add(carried("cache " + part.name, Category::activations), value);
}

OperationId Compute::logits(const ComputeStep& step) {
  Value value;
  value.kind = ValueKind::logits;
  value.part = step.part;
  value.elements = model_->batch * model_->architecture.vocab;
  value.placement.dtype = DType::fp32;
  Operation op = compute(step, {tokens_, activations_[step.part - 1]});
  const ValueId made = w_.write(op, local("logits", Category::activations), value);
  const OperationId head = emit(std::move(op), model_->parts[step.part].forward.scratch_bytes);
  copy_to_host(made, logits_on_host_, "logits on the host");
  return head;
}

void Compute::copy_to_host(ValueId made, StorageId& on_host, const char* name) {
  const Value value = w_.value(made);
  if (!on_host) {
    Storage storage = at_rest(name, Category::activations);
    storage.space = MemorySpace::host;
    on_host = w_.add(std::move(storage), value.bytes());
  }
  Operation store = operation_of(OperationKind::store, Queue::store, {});
  store.reads = {made};
  w_.write(store, on_host, value);
  w_.emit(std::move(store));
}

}  // namespace tessera
