#pragma once
// Plays a schedule on cores. Compute runs on the caller's thread, which issues everything in list order. Communication
// runs there too (serial), on a separate thread (parallel), or on a thread per queue (chaos, with random delays).

#include <atomic>
#include <vector>

#include "engine/queues.hpp"
#include "tessera/engine/player.hpp"

namespace tessera {

class CpuPlayer final : public Player {
 public:
  CpuPlayer(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer, const PlayerSettings& settings);
  /// The threads must end before the objects that their work touches.
  ~CpuPlayer() override { queues_.drain(); }

  StepWish summed_wish() override { return *bound_.wish; }
  void send_scalars() override;
  void send_inputs() override;
  void receive_scalars() override;
  const ReducedScalars& reduced_scalars() const override { return reduced_; }
  void synchronize() override;
  std::string execution_mode() const override { return {}; }

 private:
  void play_segment(const Play& segment, const TokenFeed& feed) override;
  void find_border_waits();
  void issue(const Play& play, const TokenFeed& feed);
  void load(OperationId id, const ModelParts& model, const TokenFeed& feed);
  static void run_task(void* self, std::int64_t argument, Stream& stream);
  void execute(OperationId id, Stream& stream);
  void release(OperationId id, Stream& stream);

  Queues queues_;
  StreamOrder order_;
  /// The last operation of each kind of collective on another thread; the segment's end waits for them.
  IndexedVector<SegmentId, std::vector<OperationId>> border_waits_;
  ReducedScalars reduced_;                                            ///< as received
  IndexedVector<OperationId, std::vector<StorageId>> passing_;        ///< poison
  IndexedVector<StorageId, std::atomic<std::int32_t>> touches_left_;  ///< poison: in the segment being played
};

}  // namespace tessera
