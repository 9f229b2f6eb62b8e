#pragma once
// Submits operations to a GPU's streams; the host goes on before they run.

#include <functional>
#include <memory>
#include <vector>

#include "engine/gpu/operation_times.hpp"
#include "engine/gpu/stream_flight.hpp"
#include "engine/queues.hpp"
#include "tessera/engine/operation_runner.hpp"

namespace tessera {

class Submitter {
 public:
  /// All must outlive the submitter. `poison`: fills a storage with NaN after its last use in a segment.
  Submitter(const StepSchedule& schedule, const Resources& resources, OperationRunner& runner, Queues& queues,
            StreamOrder& order, StreamFlight& flight, bool poison);

  /// Submits operations except loads, from compute stream to compute stream. `times`: of timed operations, or null.
  /// `seen` is called with each that is done; it may be empty.
  void submit(IdRange<OperationId> operations, OperationTimes* times,
              const std::function<void(OperationId)>& seen = {});
  /// Runs one operation, in order after the stream's others.
  void run(OperationId id, Stream& stream);

  /// Makes later work of the other streams come after all earlier work of the compute stream.
  void fork();
  /// Lets the compute stream go on when the others are done.
  void join();

 private:
  void find_poison();

  const StepSchedule& schedule_;
  const Resources& resources_;
  OperationRunner& runner_;
  Queues& queues_;
  StreamOrder& order_;
  StreamFlight& flight_;
  std::unique_ptr<Event> border_;             ///< where other streams start
  std::vector<std::unique_ptr<Event>> ends_;  ///< of the others
  /// Storages that no later operation of the segment touches.
  IndexedVector<OperationId, std::vector<StorageId>> poison_;
};

}  // namespace tessera
