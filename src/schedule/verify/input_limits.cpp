// Inputs of recomputed blocks on their way to the host and back: how many are on the device, and since when.

#include <map>

#include "schedule/order.hpp"
#include "schedule/verify/limits.hpp"

namespace tessera {

namespace {

class InputsOfSegment {
 public:
  InputsOfSegment(const StepSchedule& schedule, const Segment& segment, std::vector<std::string>& problems)
      : schedule_(schedule),
        segment_(segment),
        order_(schedule, segment),
        problems_(problems),
        touches_(touches_of(schedule, segment)) {
    for (const OperationId id : segment.operations()) {
      const Operation& op = schedule.operation(id);
      if (op.queue == Queue::compute && op.part) parts_.push_back(id);
      if (op.kind == OperationKind::recompute && starts_from_input(op)) starts_.push_back(id);
    }
  }

  /// Checks that a store's source is made only once enough earlier ones are gone, and the head runs after all are gone.
  void check_outgoing() {
    std::vector<StorageId> outgoing;
    for (const OperationId id : segment_.operations()) {
      if (!copies(id, OperationKind::store)) continue;
      const Value& source = schedule_.value(schedule_.operation(id).reads[0]);
      if (!source.maker) continue;
      count(outgoing, source.maker, "go out");
      outgoing.push_back(source.storage);
    }
    for (const OperationId id : parts_) {
      if (schedule_.part(schedule_.operation(id).part).kind != PartKind::head) continue;
      for (const StorageId storage : outgoing) {
        if (!is_done_before(storage, id)) complain(id, schedule_.storage(storage).name + " may still have to go out");
      }
    }
  }

  /// Checks that a load waits until enough earlier ones have been used, and until its own use is near.
  void check_incoming() {
    std::vector<StorageId> incoming;
    for (const OperationId id : segment_.operations()) {
      if (!copies(id, OperationKind::load)) continue;
      const ValueId back = schedule_.operation(id).writes[0];
      count(incoming, id, "be back");
      incoming.push_back(schedule_.value(back).storage);
      const OperationId not_before = before_recompute_of(back);
      if (!not_before) {
        complain(id, "what it loads is not recomputed from");
      } else if (!order_.before(not_before, id)) {
        complain(id, fmt::format("it may load before operation {} has ended, too far ahead", not_before));
      }
    }
  }

 private:
  bool copies(OperationId id, OperationKind kind) const {
    const Operation& op = schedule_.operation(id);
    return op.kind == kind && op.reads.size() == 1 && op.writes.size() == 1 &&
           schedule_.value(op.reads[0]).kind == ValueKind::activation;
  }

  /// Returns whether a recompute is the first of its block: it reads nothing that another recompute made.
  bool starts_from_input(const Operation& op) const {
    for (const ValueId v : op.reads) {
      const Value& value = schedule_.value(v);
      if (value.kind == ValueKind::activation && value.maker)
        return schedule_.operation(value.maker).kind != OperationKind::recompute;
    }
    return false;
  }

  /// Returns the compute operation before the recompute that is as many inputs ahead as may be back; else the head.
  OperationId before_recompute_of(ValueId input) const {
    const auto ahead = static_cast<std::size_t>(schedule_.policy.inputs_in_flight - 1);
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      const auto& reads = schedule_.operation(starts_[i]).reads;
      if (std::find(reads.begin(), reads.end(), input) == reads.end()) continue;
      OperationId before;
      for (const OperationId part : parts_) {
        const bool is_head = schedule_.part(schedule_.operation(part).part).kind == PartKind::head;
        if (i < ahead ? is_head : part < starts_[i - ahead]) before = part;
      }
      return before;
    }
    return {};
  }

  bool is_done_before(StorageId storage, OperationId id) const { return order_.all_before(touches_.at(storage), {id}); }

  /// At `id`, which fills one more storage, counts those of `earlier` that may still be in use.
  void count(const std::vector<StorageId>& earlier, OperationId id, const char* what) {
    std::int64_t alive = 1;
    for (const StorageId storage : earlier) alive += is_done_before(storage, id) ? 0 : 1;
    if (alive > schedule_.policy.inputs_in_flight)
      complain(id, fmt::format("{} inputs of blocks may have to {}, the limit is {}", alive, what,
                               schedule_.policy.inputs_in_flight));
  }

  void complain(OperationId id, const std::string& what) {
    problems_.push_back(fmt::format("{}, operation {}: {}", segment_.name, id, what));
  }

  const StepSchedule& schedule_;
  const Segment& segment_;
  SegmentOrder order_;
  std::vector<std::string>& problems_;
  std::map<StorageId, std::vector<OperationId>> touches_;
  std::vector<OperationId> parts_, starts_;  ///< operations of parts; recomputes that start from a block's input
};

}  // namespace

void check_inputs_in_flight(const StepSchedule& schedule, std::vector<std::string>& problems) {
  if (schedule.offloaded_inputs == 0) return;
  for (const Segment& segment : schedule.segments) {
    if (segment.role != SegmentRole::micro_step) continue;
    InputsOfSegment inputs(schedule, segment, problems);
    inputs.check_outgoing();
    inputs.check_incoming();
  }
}

}  // namespace tessera
