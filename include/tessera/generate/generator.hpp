#pragma once
// Continues prompts: plays the segments of generation, on one of several ranks.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/engine/player.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/generate/sampling.hpp"

namespace tessera {

/// A prompt to continue.
struct GenerationPrompt {
  std::int64_t number = 0;           ///< among all prompts, from 0: draws depend on it
  std::vector<std::int32_t> tokens;  ///< at least one
};

/// Takes the next token of prompts[slot]; returns whether its text continues.
using TokenSink = std::function<bool(std::size_t slot, std::int32_t token)>;

class Generator {
 public:
  /// `schedule` has segments of generation; all must outlive the generator. `vocab`: ids below it may be chosen.
  Generator(const StepSchedule& schedule, Resources& resources, Player& player, const SamplingRules& rules,
            std::int64_t vocab);

  /// Continues at most GenerationShape::batch prompts, possibly none, until no text goes on. Collective over the
  /// world: a rank without prompts plays along. A text must end when prompt and continuation fill the cache's
  /// positions. Throws NumericalError on a rank whose logits are not numbers, when all ranks have ended.
  void run(std::span<const GenerationPrompt> prompts, const TokenSink& sink);

  /// Returns the logits of a slot after the last play, only if the slot brought tokens.
  std::span<const float> logits(std::size_t slot) const;

 private:
  /// A row of the batch.
  struct Row {
    std::span<const std::int32_t> tokens;  ///< those that the coming play takes
    std::int64_t position = 0;             ///< of the first of them
  };
  void play(SegmentRole role, std::span<const Row> rows);

  const StepSchedule& schedule_;
  Resources& resources_;
  Player& player_;
  TokenSampler sampler_;
  std::size_t vocab_;
  const float* logits_ = nullptr;
};

}  // namespace tessera
