#pragma once
// Evaluation of validation sets over all ranks, by the evaluation segment of a schedule: of a training, or of a model
// that is only evaluated.

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/rank_context.hpp"
#include "tessera/data/dataset.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/optimizer/optimizer.hpp"

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

/// Returns the windows of a set that are evaluated in micro-batches of `batch`. 0 micro-batches, or more than there
/// are: all, to the last window.
std::int64_t evaluated_windows(const ValidationSet& set, std::int64_t batch, std::int64_t micro_batches);

/// Returns the targets that the loss counts in the first `windows` of a set. UsageError if there are none.
std::int64_t evaluated_tokens(const ValidationSet& set, std::int64_t windows);

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
