// The pass over generation: the forward of the same parts, on a chunk of prompts or on one token of each sequence.
// Caches of keys and values stay in memory between plays.

#include "schedule/passes/compute.hpp"

namespace tessera {

SegmentId Compute::write_generation(SegmentRole role) {
  begin(role, std::string(name_of(role)));
  write_forward([&](const ComputeStep& step) { return logits(step); });
  return w_.close_segment();
}

StorageId Compute::cache(const Part& part, PartId id) {
  const auto found = caches_.find(id);
  if (found != caches_.end()) return found->second;
  const Value value = value_of(ValueKind::cache, w_.schedule().policy.compute, model_->cache_elements(part), id);
  return caches_[id] = w_.add(carried("cache " + part.name, Category::activations), value);
}

OperationId Compute::logits(const ComputeStep& step) {
  const Value value = value_of(ValueKind::logits, DType::fp32, model_->batch * model_->architecture.vocab, step.part);
  Operation op = compute(step, {tokens_, activations_[step.part - 1]});
  const ValueId made = w_.write(op, local("logits", Category::activations), value);
  const OperationId head = emit(std::move(op), model_->parts[step.part].forward.scratch_bytes);
  copy_to_host(made, logits_on_host_, "logits");
  return head;
}

void Compute::copy_to_host(ValueId made, StorageId& on_host, const char* use) {
  const Value value = w_.value(made);
  if (!on_host) on_host = w_.add(in_host_memory(use, at_rest("on the host", Category::activations)), value.bytes());
  Operation store = operation_of(OperationKind::store, Queue::store, {});
  store.reads = {made};
  w_.write(store, on_host, value);
  w_.emit(std::move(store));
}

}  // namespace tessera
