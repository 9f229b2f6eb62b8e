#include "bench/one_block.hpp"

#include <cctype>
#include <map>
#include <tuple>

#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// Returns the name without the numbers of blocks: "saved h.attn qkv" instead of "saved h.3.attn qkv".
std::string without_block(std::string name) {
  for (std::size_t at = 0; (at = name.find("h.", at)) != std::string::npos; ++at) {
    while (at + 2 < name.size() && std::isdigit(static_cast<unsigned char>(name[at + 2])) != 0) name.erase(at + 2, 1);
  }
  return name;
}

/// Returns for each storage the one that stands for it.
IndexedVector<StorageId, StorageId> representatives(const StepSchedule& schedule) {
  IndexedVector<StorageId, StorageId> instead(schedule.storages.size());
  std::map<std::tuple<std::string, std::int64_t, RegionKind, MemorySpace, std::int64_t>, StorageId> first;
  std::map<std::string, std::int64_t> carried;  // several sums over micro-steps have one name
  for (const StorageId id : schedule.storages.ids()) {
    const Storage& storage = schedule.storage(id);
    const std::int64_t number = storage.carried ? ++carried[storage.name] : 0;
    const auto alike = std::tuple(without_block(storage.name), storage.bytes, storage.region, storage.space, number);
    instead[id] = first.try_emplace(alike, id).first->second;
  }
  return instead;
}

}  // namespace

PlannedRun with_one_block(StepSchedule schedule) {
  const IndexedVector<StorageId, StorageId> instead = representatives(schedule);
  for (Value& value : schedule.values) value.storage = instead[value.storage];
  for (UnitState& state : schedule.state) state.master = instead[state.master], state.moments = instead[state.moments];
  PlannedRun run;
  run.plan.offset.assign(schedule.storages.size(), 0);
  for (const StorageId id : schedule.storages.ids()) {
    const Storage& storage = schedule.storage(id);
    RegionPlan& region =
        run.plan.spaces[static_cast<std::size_t>(storage.space)].regions[static_cast<std::size_t>(storage.region)];
    if (instead[id] != id) continue;
    run.plan.offset[id] = region.bytes;
    region.bytes += round_up(storage.bytes, kStorageAlignment);
  }
  run.schedule = std::move(schedule);
  return run;
}

std::vector<CountedOperation> counted_operations(const StepSchedule& schedule, const std::vector<Play>& plays) {
  using Numbers = std::vector<std::int64_t>;
  std::vector<CountedOperation> counted;
  std::map<std::tuple<OperationKind, Queue, Numbers, Numbers, Numbers, Numbers>, std::size_t> known;
  const auto number = [&](ValueId value) { return std::int64_t{schedule.value(value).storage.number()}; };
  for (const Play& play : plays) {
    for (const OperationId id : schedule.segments[play.segment].operations()) {
      const Operation& op = schedule.operation(id);
      Numbers reads, writes, updates, sizes{op.bucket.count};
      for (const ValueId value : op.reads) reads.push_back(number(value));
      for (const ValueId value : op.writes) writes.push_back(number(value));
      for (const Update& update : op.updates) updates.push_back(number(update.before));
      if (op.kind == OperationKind::orthogonalize) {  // a rank works on the matrices that it owns
        for (const OwnedTensor& owned : schedule.owners[op.unit].tensors) sizes.push_back(owned.owner);
      }
      const auto [it, is_new] = known.try_emplace({op.kind, op.queue, reads, writes, updates, sizes}, counted.size());
      if (is_new) counted.push_back({id, 0});
      ++counted[it->second].count;
    }
  }
  return counted;
}

}  // namespace tessera
