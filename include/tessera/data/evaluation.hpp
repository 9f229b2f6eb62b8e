#pragma once
// The part of a validation set that is evaluated, and the result.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/data/dataset.hpp"

namespace tessera {

/// The result for one validation set.
struct Evaluation {
  std::string set;                                         ///< its name; may be empty
  double loss = std::numeric_limits<double>::quiet_NaN();  ///< mean over `tokens`, nats
  std::int64_t windows = 0, available = 0;                 ///< samples that were evaluated, and that the set has
  std::int64_t tokens = 0;                                 ///< targets that were predicted
  std::int64_t left_out = 0;                               ///< targets of the set after these windows
  double perplexity() const { return std::exp(loss); }
};

/// The loss of a mixture's source in a step.
struct SourceLoss {
  double loss = 0;           ///< mean over `targets`, nats; NaN without any
  std::int64_t targets = 0;  ///< that the loss counts
};

/// Returns the perplexity of a loss as text: "9.81", and "1.97e+21" of a ruined model.
std::string perplexity_text(double loss);

/// Returns "validation loss 2.2835, perplexity 9.81", or "validation loss A 2.2835 (perplexity 9.81), B ...".
std::string describe(const std::vector<Evaluation>& evaluations);

/// Returns the windows of a set that are evaluated in micro-batches of `batch`. With 0 micro-batches, or more than
/// there are, these are all windows, to the last one.
std::int64_t evaluated_windows(const ValidationSet& set, std::int64_t batch, std::int64_t micro_batches);

/// Returns the targets that the loss counts in the first `windows` of a set. UsageError if there are none.
std::int64_t evaluated_tokens(const ValidationSet& set, std::int64_t windows);

}  // namespace tessera
