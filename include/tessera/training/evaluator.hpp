#pragma once
// Evaluation of validation sets over all ranks, by the evaluation segment of a schedule: of a training run, or of a
// model that is only evaluated.

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
  /// All must outlive the evaluator. `vocab` is the model's; tokens are checked against it.
  Evaluator(RankContext& context, const StepSchedule& schedule, Optimizer& optimizer, Player& player,
            std::int64_t vocab);

  /// Returns the mean loss over `micro_batches` of the set, which is the same on every rank and for every world. The
  /// set must stay at its address as long as the evaluator lives. Collective.
  Evaluation evaluate(const ValidationSet& set, std::int64_t micro_batches);

 private:
  /// Returns the sum of the losses of `count` groups of `together` windows from window `first` on. Each group is a
  /// micro-batch, which it fills by being repeated.
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
