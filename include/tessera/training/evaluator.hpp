#pragma once
// Evaluation of validation sets over all ranks, by the evaluation segment of a schedule: of a training, or of a model
// that is only evaluated.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tessera/comm/rank_context.hpp"
#include "tessera/data/evaluation.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/optimizer/optimizer.hpp"

namespace tessera {

class Evaluator {
 public:
  /// All must outlive the evaluator. `vocab`: of the model; tokens are checked against it.
  Evaluator(RankContext& context, const StepSchedule& schedule, Optimizer& optimizer, Player& player,
            std::int64_t vocab);

  /// Returns the mean loss over `micro_batches` of the set: the same on every rank and world. The set stays where it is
  /// as long as the evaluator lives. Collective.
  Evaluation evaluate(const ValidationSet& set, std::int64_t micro_batches);

 private:
  /// Returns the sum of the losses of `count` groups of `together` windows from window `first` on. A group is a
  /// micro-batch, in which it is repeated until that is full.
  double evaluate_groups(const ValidationSet& set, std::int64_t first, std::int64_t together, std::int64_t count);

  RankContext& context_;
  const StepSchedule& schedule_;
  Optimizer& optimizer_;
  Player& player_;
  std::int64_t vocab_;
  std::vector<std::int32_t> row_;                                                 ///< scratch of batches
  std::map<std::pair<const ValidationSet*, std::int64_t>, std::int64_t> tokens_;  ///< counted, by set and windows
};

}  // namespace tessera
