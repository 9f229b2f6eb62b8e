#pragma once
// Finds what a rank computes wrongly (run.replay_every). The first micro-step of a step is played by two ranks: each
// plays the micro-batch of the next rank, and then its own. Parameters are the same on all ranks and the order of every
// sum is fixed, so both must make the same bits. All ranks and all units are compared at once, and no activation is
// sent anywhere.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/player.hpp"
#include "tessera/schedule/made_values.hpp"

namespace tessera {

class Replay {
 public:
  /// All must outlive the replay.
  Replay(const StepSchedule& schedule, Resources& resources, Player& player);

  /// Plays the first micro-step with the micro-batch of the rank that is `ahead` ranks later, which `feed` brings:
  /// first 1, then 0, then perhaps 2. Collective.
  void play(std::int64_t ahead, const TokenFeed& feed);

  /// Compares what the plays 0 and 1 rank ahead have made. Returns what differs, the same on every rank: the first
  /// operation, the value and the rank; empty if nothing does. Only then, and on all ranks, `play_third` is called,
  /// which plays 2 ranks ahead, for a majority. Collective.
  std::string difference(const std::function<void()>& play_third);

 private:
  using Sums = std::vector<std::uint64_t>;  ///< of the values made, in list order
  void look(OperationId id);
  const std::vector<MadeValue>& made_in(OperationId id) const;
  std::string describe(std::int64_t owner, const std::vector<std::vector<Sums>>& of_ranks) const;

  const StepSchedule& schedule_;
  Resources& resources_;
  Player& player_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::string> hosts_;       ///< of all ranks
  std::vector<MadeValue> made_, fresh_;  ///< by the first micro-step, and by StepSchedule::fresh: the same values
  std::array<Sums, 3> played_;           ///< by how many ranks ahead the micro-batch's rank is
};

}  // namespace tessera
