#pragma once
// The best checkpoints of a run: those with the lowest validation loss. A checkpoint is judged by the evaluation of its
// own step, which its manifest records; one without an evaluation is never the best.

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Returns the loss by which a checkpoint is judged, that of the first validation set; empty if there is none.
std::optional<double> judged_loss(const NamedLosses& evaluation);

class JudgedCheckpoints {
 public:
  explicit JudgedCheckpoints(CheckpointFolder folder) : folder_(std::move(folder)) {}

  /// Returns the judged checkpoints up to step `newest`, by step. Each manifest is read once, but again where the
  /// system refused it. Such a one and a damaged one are left out.
  std::map<std::int64_t, double> losses(std::int64_t newest);
  /// Returns the `count` lowest of them; among equal losses, the earlier step.
  std::set<std::int64_t> best(std::int64_t count, std::int64_t newest);
  /// Returns these, and those whose manifest the system refuses at the moment, which may be among the best.
  std::set<std::int64_t> kept(std::int64_t count, std::int64_t newest);
  /// Notes the evaluation of a checkpoint that is being written.
  void note(std::int64_t step, const NamedLosses& evaluation) { known_[step] = judged_loss(evaluation); }

 private:
  CheckpointFolder folder_;
  std::map<std::int64_t, std::optional<double>> known_;
  std::set<std::int64_t> unreadable_;  ///< at the last look
};

}  // namespace tessera
