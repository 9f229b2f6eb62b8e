#pragma once
// Submits operations to a GPU's streams; the host goes on before they run.

#include <memory>
#include <vector>

#include "engine/gpu/operation_times.hpp"
#include "engine/operation_runner.hpp"
#include "engine/queues.hpp"

namespace tessera {

class Submitter {
 public:
  /// All must outlive the submitter. `poison`: fills a storage with NaN behind its last use in a segment.
  Submitter(const StepSchedule& schedule, const Resources& resources, OperationRunner& runner, Queues& queues,
            StreamOrder& order, bool poison);

  /// Operations from compute's stream to compute's stream, but loads. `times`: of operations that are timed, or null.
  void submit(OperationId first, OperationId count, OperationTimes* times);
  /// One operation, in order behind the stream's others.
  void run(OperationId id, Stream& stream);

  /// What other streams are given from here on comes after all that compute's stream was given.
  void fork();
  /// RankCompute's stream goes on when the others are done.
  void join();

 private:
  void find_poison();

  const StepSchedule& schedule_;
  const Resources& resources_;
  OperationRunner& runner_;
  Queues& queues_;
  StreamOrder& order_;
  std::unique_ptr<Event> border_;               ///< where other streams start
  std::vector<std::unique_ptr<Event>> ends_;    ///< of the others
  std::vector<std::vector<StorageId>> poison_;  ///< per operation: storages that no later one of the segment touches
};

}  // namespace tessera
