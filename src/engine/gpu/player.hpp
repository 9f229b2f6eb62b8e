#pragma once
// Plays a schedule on a GPU: operations are submitted to streams and the host goes on. A segment that was played before
// is replayed as graphs, unless the step is timed.

#include "engine/gpu/operation_times.hpp"
#include "engine/gpu/pinned_exchange.hpp"
#include "engine/gpu/segment_graphs.hpp"
#include "engine/gpu/submitter.hpp"
#include "tessera/engine/player.hpp"

namespace tessera {

class GpuPlayer final : public Player {
 public:
  GpuPlayer(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer, const PlayerSettings& settings);
  /// Streams are empty before the objects that their work touches are destroyed.
  ~GpuPlayer() override { queues_.drain(); }

  StepWish summed_wish() override;
  void send_scalars() override;
  void send_inputs() override;
  void receive_scalars() override;
  const ReducedScalars& reduced_scalars() const override { return exchange_.reduced_scalars(); }
  void synchronize() override;
  std::string execution_mode() const override;

 private:
  void play_segment(const Play& segment, const TokenFeed& feed) override;
  template <class Work>
  void guarded(Work&& work) {
    play_guarded(resources_.context, queues_, work);
  }
  void submit(const Play& play, const TokenFeed& feed);
  void refresh();
  void look();
  void load(OperationId id, const ModelParts& model, const TokenFeed& feed);
  bool works_on_host(const Segment& segment) const;
  void check();

  PinnedExchange exchange_;
  Queues queues_;
  StreamOrder order_;
  StreamFlight flight_;
  Submitter submitter_;
  SegmentGraphs graphs_;
  OperationTimes operation_times_;  ///< of steps that are timed
  std::string why_no_graphs_;
  IndexedVector<SegmentId, bool> played_;  ///< segments that were played; captured ones are among them
  std::int64_t wishes_ = 0;                ///< micro-steps of this step that were submitted with a wish
};

}  // namespace tessera
