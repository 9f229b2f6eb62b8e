#pragma once
// Plays a schedule on one rank: each operation in list order on its queue, waiting for exactly what the schedule says.
// It knows kinds of operations, not strategies. A backend makes it (backend.hpp).

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/engine/bound_schedule.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/engine/operation_runner.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/kernels/reduced_scalars.hpp"
#include "tessera/optimizer/optimizer.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Fills one micro-batch: tokens and targets, both [batch, sequence]; returns its first sample's global number. With
/// ModelParts::documents, positions follow the targets.
/// In generation: tokens, followed by GenerationInputs, which begin at `targets`; the return value has no meaning.
using TokenFeed = std::function<std::int64_t(std::int32_t* tokens, std::int32_t* targets)>;

/// What a segment is played for. Only the times of plays for a training step count in Player::times().
enum class PlayPurpose : std::uint8_t { step, aside };

struct PlayerSettings {
  std::uint64_t chaos_seed = 1;  ///< of the delays of QueueMode::chaos
  bool poison = false;           ///< fill a storage with NaN once its last reader in a segment is done (tests)
  bool graph = true;             ///< GPU: segments are captured as graphs and replayed
  /// Steps 1 and 2 and every so many are timed; a GPU plays those operation by operation and replays the others.
  std::int64_t measure_every = 1;
  StepTrace* trace = nullptr;        ///< gets the spans of the steps it wants, which are then timed too; may be null
  FlightRecorder* flight = nullptr;  ///< gets all operations, on a GPU those that are seen; may be null

  bool measures(std::int64_t step) const {
    return step <= 2 || step % measure_every == 0 || (trace != nullptr && trace->wants(step));
  }
};

/// Returns this rank's wish to stop, as it is now.
using WishSource = std::function<StepWish()>;

class Player {
 public:
  /// The schedule, the resources and the optimizer must outlive the player.
  Player(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer, const PlayerSettings& settings)
      : schedule_(schedule),
        resources_(resources),
        optimizer_(optimizer),
        settings_(settings),
        bound_(bind(schedule, resources, optimizer)),
        runner_(schedule, bound_, resources, settings.chaos_seed),
        log_(schedule, settings.trace, settings.flight) {}
  virtual ~Player() = default;
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  /// Sets the source of this rank's wish. It is asked on the calling thread: before each micro-step of several, when
  /// the rest of a step is done, and for as long as the host waits for a GPU before that. Without a source there are no
  /// wishes.
  void ask(WishSource source) { wish_source_ = std::move(source); }
  /// Returns what all ranks wished before the last micro-step of several that is known. On a CPU that is the last one
  /// played. On a GPU it is the one before, whose end is waited for, so that the host is at most two micro-steps ahead.
  virtual StepWish summed_wish() = 0;

  /// Plays one segment; on a CPU until all is done, on a GPU until all is submitted. `feed` is called once per load
  /// operation, on the calling thread. Rethrows what an operation threw, after telling the other ranks, so that none is
  /// left waiting. What a step leaves to the next one (StepSchedule::finish) is done before anything else is played.
  void play(const Play& segment, PlayPurpose purpose, const TokenFeed& feed = {});
  /// Plays segments one after the other.
  void play(const std::vector<Play>& segments, PlayPurpose purpose, const TokenFeed& feed = {}) {
    for (const Play& segment : segments) play(segment, purpose, feed);
  }
  /// Does the updates that the last step has left, so that all state may be read, and waits for them. No step's times
  /// include them.
  void finish_step();

  /// Sends the optimizer's scalars to the device: all of them, at the start and when a run is resumed. send_inputs
  /// sends only the host's decisions for the next play (StepInputs). Between two sends comes a receive_scalars().
  virtual void send_scalars() = 0;
  virtual void send_inputs() = 0;
  /// Waits for all that was played, and reads back its results: the optimizer's scalars and reduced_scalars().
  virtual void receive_scalars() = 0;
  /// Returns the sums of the last evaluation segment or step.
  virtual const ReducedScalars& reduced_scalars() const = 0;
  /// Waits for all that was played, so that device memory may be read.
  virtual void synchronize() = 0;

  /// Returns how a GPU is driven, for the log: as graphs, or eagerly and why. Empty on a CPU.
  virtual std::string execution_mode() const = 0;

  StepTimes& times() { return log_.times(); }

  /// Calls `seen` after each operation but loads, when its results are in memory, on the thread that runs it: with
  /// queues in parallel several at once. Segments are played eagerly then. Empty: no more. Returns what was called
  /// until now.
  std::function<void(OperationId)> watch(std::function<void(OperationId)> seen) {
    return std::exchange(seen_, std::move(seen));
  }

 protected:
  virtual void play_segment(const Play& segment, const TokenFeed& feed) = 0;
  const std::function<void(OperationId)>& seen() const { return seen_; }
  StepWish wish() const { return wish_source_ ? wish_source_() : StepWish(); }

  const StepSchedule& schedule_;
  Resources& resources_;
  Optimizer& optimizer_;
  PlayerSettings settings_;
  BoundSchedule bound_;
  OperationRunner runner_;
  OperationLog log_;
  bool measures_ = false;  ///< whether the current play is timed

 private:
  WishSource wish_source_;
  std::function<void(OperationId)> seen_;
};

}  // namespace tessera
