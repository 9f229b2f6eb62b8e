#pragma once
// Evaluation of validation sets over all ranks, by the evaluation segment of a schedule: of a training, or of a model
// that is only evaluated.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/comm/rank_context.hpp"
#include "tessera/data/dataset.hpp"
#include "tessera/engine/optimizer.hpp"
#include "tessera/engine/player.hpp"

namespace tessera {

/// What one validation set costs.
struct Evaluation {
  std::string set;                                         ///< its name; may be empty
  double loss = std::numeric_limits<double>::quiet_NaN();  ///< mean over `tokens`, nats
  std::int64_t windows = 0, available = 0;                 ///< samples that were evaluated, and that the set has
  std::int64_t tokens = 0;                                 ///< targets that were predicted
  double perplexity() const { return std::exp(loss); }
};

/// Returns "validation loss 2.2835, perplexity 9.81", or "validation loss A 2.2835 (perplexity 9.81), B ...".
std::string describe(const std::vector<Evaluation>& evaluations);

class Evaluator {
 public:
  /// All must outlive the evaluator. `vocab`: of the model; tokens are checked against it.
  Evaluator(RankContext& context, const StepSchedule& schedule, Optimizer& optimizer, Player& player,
            std::int64_t vocab);

  /// Returns the mean loss over `micro_batches` of the set: the same on every rank and world. 0, or more than there
  /// are: all of it, to the last window. Collective.
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
  std::vector<std::int32_t> row_;  ///< scratch of batches
};

}  // namespace tessera
