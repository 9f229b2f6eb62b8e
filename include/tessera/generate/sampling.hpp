#pragma once
// The choice of the next token from logits.

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// How a token is chosen. Temperature is applied first, then top_k, then top_p.
struct SamplingRules {
  double temperature = 1;  ///< logits are divided by it; 0: the largest logit, of equal ones the lowest id
  std::int64_t top_k = 0;  ///< only so many of the largest; 0: all
  double top_p = 1;        ///< only the most probable ones that together reach this probability; 1: all
  std::uint64_t seed = 1;
};

/// A draw depends only on the rules, the logits, the prompt's number and the token's position: not on other prompts,
/// ranks or earlier draws. Belongs to one thread; allocates at its first calls.
class TokenSampler {
 public:
  explicit TokenSampler(const SamplingRules& rules) : rules_(rules) {}

  /// Returns an id of 0 to logits.size() - 1. Throws NumericalError if no logit is finite, or if one is NaN.
  std::int32_t choose(std::span<const float> logits, std::int64_t prompt, std::int64_t position);

 private:
  void keep_largest(std::span<const float> logits);
  void keep_probable();

  SamplingRules rules_;
  std::vector<std::int32_t> ids_;  ///< those that may be drawn; the most probable first if some were left out
  std::vector<double> weights_;    ///< of those, not normalised
};

}  // namespace tessera
