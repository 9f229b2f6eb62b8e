#pragma once
// Plays a schedule on one rank: each operation in list order on its lane, waiting for exactly what the schedule says.
// Knows kinds of operations, not strategies.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/optimizer.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/model/decoder.hpp"
#include "tessera/telemetry/ring.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// Fills one micro-batch: tokens and targets, both [batch, sequence]; returns its first sample's global number.
using TokenFeed = std::function<std::int64_t(std::int32_t* tokens, std::int32_t* targets)>;

struct PlayerSettings {
  std::uint64_t chaos_seed = 1;  ///< of the delays of LaneMode::chaos
  bool poison = false;           ///< fill a storage with NaN once its last reader in a segment is done (tests)
  bool graph = true;             ///< GPU: segments are captured as graphs and replayed
  /// Steps 1 and 2 and every so many are timed; on a GPU they are played operation by operation, others are replayed.
  std::int64_t measure_every = 1;
};

class Player {
 public:
  /// Binds every operation to addresses and communicators. All references must outlive the player.
  Player(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer, const PlayerSettings& settings = {});
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  /// Plays segments one after the other; on a CPU until all is done, on a GPU until all is submitted. `feed` is called
  /// once per load operation, on the calling thread. Rethrows what an operation threw, after telling the other ranks,
  /// so that none is left waiting.
  void play(const std::vector<Play>& plays, const TokenFeed& feed);
  /// The same for one segment: lets the caller do something between segments (dumps; after synchronize()).
  void play_segment(const Play& play, const TokenFeed& feed);

  /// Sends the optimizer's scalars to the device: all of them (at start, and when a run is resumed), or what the host
  /// decides for what is played next (StepInputs). Between a send and the next one lies a receive_scalars().
  void send_scalars();
  void send_inputs();
  /// Waits for all that was played; then the optimizer's scalars and payload() are what it left.
  void receive_scalars();
  /// The sums of the last evaluation segment or step.
  const ScalarPayload& payload() const;
  /// Waits for all that was played: device memory may be looked at.
  void synchronize();

  /// How a GPU is driven, for the log: as graphs, or eagerly and why. Empty on a CPU.
  std::string manner() const;

  StepTimes& times() { return times_; }
  const OperationRing& ring() const { return ring_; }

 private:
  struct Bound;
  class Lanes;
  class Exchange;
  class DeviceTimes;
  struct Piece;

  void bind(OperationId id);
  void bind_part(OperationId id, Bound& bound);
  void bind_update(OperationId id, Bound& bound);
  void bind_store(OperationId id, Bound& bound);
  void bind_poison();
  void bind_device_poison();
  void bind_names();
  void bind_tails();
  void bind_scalars();
  template <class Work>
  void guarded(Work&& work);
  void issue(const Play& play, const TokenFeed& feed);
  void issue_on_host(const Play& play, const TokenFeed& feed);
  void issue_on_device(const Play& play, const TokenFeed& feed);
  void bind_pieces(const Segment& segment);
  Stream& stream_of(const Piece& piece);
  void submit(OperationId first, OperationId count);
  void play_pieces(std::size_t segment);
  void launch(Piece& piece, const std::string& name);
  static void run_task(void* self, std::int64_t argument, Stream& stream);
  void execute(OperationId id, Stream& stream);
  Communicator& summing_communicator(OperationId id);
  void execute_gather(const Operation& op, Stream& stream);
  void execute_part(OperationId id, Stream& stream);
  void execute_accumulate(const Operation& op, Stream& stream);
  void execute_store(OperationId id, Stream& stream);
  void release(OperationId id, Stream& stream);
  void delay(OperationId id);
  std::byte* at(ValueId value) const { return resources_.address(s_.value(value).storage); }

  const StepSchedule& s_;
  Resources& resources_;
  Optimizer& optimizer_;
  PlayerSettings settings_;
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<std::unique_ptr<Bound>> bound_;    ///< per operation
  std::vector<std::vector<OperationId>> tails_;  ///< per segment: what its end waits for on other threads
  ScalarPayload* payload_ = nullptr;             ///< on the device, as scalars_
  StepScalars* scalars_ = nullptr;
  std::unique_ptr<DeviceTimes> device_times_;                ///< GPU: of steps that are timed
  std::vector<std::vector<std::unique_ptr<Piece>>> pieces_;  ///< GPU: per segment
  std::vector<bool> played_;  ///< GPU: per segment, whether it was (what is captured was played)
  bool measures_ = false;     ///< what is played now is timed
  std::int64_t plays_ = 0;    ///< segments played: part of the delays' counter
  StepTimes times_;
  OperationRing ring_;
  std::vector<std::atomic<std::int32_t>> touches_left_;  ///< poison: per storage, in the segment being played
};

}  // namespace tessera
