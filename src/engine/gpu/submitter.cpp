#include "engine/gpu/submitter.hpp"

#include <algorithm>
#include <map>

#include "engine/poison.hpp"

namespace tessera {

Submitter::Submitter(const StepSchedule& schedule, const Resources& resources, OperationRunner& runner, Queues& queues,
                     StreamOrder& order, StreamFlight& flight, bool poison)
    : schedule_(schedule),
      resources_(resources),
      runner_(runner),
      queues_(queues),
      order_(order),
      flight_(flight),
      border_(resources.device->make_event()),
      poison_(schedule.operations.size()) {
  for (std::size_t i = 0; i < queues.others().size(); ++i) ends_.push_back(resources.device->make_event());
  if (poison) find_poison();
}

/// Finds where storages are poisoned, as the host does not see when an operation is done: on the stream of the last
/// operation to touch the storage. That one must be after all others, by its stream or by its own waits.
void Submitter::find_poison() {
  const auto passing = passing_storages(schedule_);
  for (const Segment& segment : schedule_.segments) {
    std::map<StorageId, std::vector<OperationId>> touches;
    for (const OperationId id : segment.operations()) {
      for (const StorageId storage : passing[id]) {
        if (schedule_.storage(storage).space == MemorySpace::device) touches[storage].push_back(id);
      }
    }
    for (const auto& [storage, by] : touches) {
      const auto& waits = order_.waits(by.back());
      const Stream* const stream = &queues_.of(schedule_.operation(by.back()).queue);
      const bool behind_all = std::all_of(by.begin(), by.end(), [&](OperationId other) {
        return &queues_.of(schedule_.operation(other).queue) == stream ||
               std::find(waits.begin(), waits.end(), other) != waits.end();
      });
      if (behind_all) poison_[by.back()].push_back(storage);
    }
  }
}

void Submitter::fork() {
  if (ends_.empty()) return;
  queues_.compute().record(*border_);
  for (auto& other : queues_.others()) other->wait(*border_);
}

void Submitter::join() {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    queues_.others()[i]->record(*ends_[i]);
    queues_.compute().wait(*ends_[i]);
  }
}

void Submitter::submit(IdRange<OperationId> operations, OperationTimes* times,
                       const std::function<void(OperationId)>& seen) {
  fork();
  for (const OperationId id : operations) {
    const Operation& op = schedule_.operation(id);
    if (takes_input(op)) continue;
    Stream& stream = queues_.of(op.queue);
    for (const OperationId other : order_.waits(id)) {
      if (other < *operations.begin()) continue;
      if (op.queue == Queue::host) {  // works on this thread, now
        order_.event(other).synchronize();
      } else {
        stream.wait(order_.event(other));
      }
    }
    // In serial mode nothing is waited for by events, so what was submitted so far may still be copying.
    if (op.queue == Queue::host && queues_.on_compute(op.queue)) stream.synchronize();
    flight_.begin(id, stream);
    if (times != nullptr) times->begin(id, stream);
    run(id, stream);
    if (times != nullptr) times->end(id, stream);
    if (seen) stream.synchronize(), seen(id);
    order_.submitted(id, stream);
    flight_.end(id, stream);  // behind the event, so that nobody waits for it
  }
  join();
}

void Submitter::run(OperationId id, Stream& stream) {
  runner_.delay(id);
  runner_.run(id, stream);
  for (const StorageId storage : poison_[id])
    resources_.device->fill_nan(stream, resources_.memory->bytes_of(schedule_, storage));
}

}  // namespace tessera
