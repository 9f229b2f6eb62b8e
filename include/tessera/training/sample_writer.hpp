#pragma once
// train.sample_every: texts that the model writes while it learns.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/generate/generator.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// A prompt and its continuation.
struct TextSample {
  std::string prompt, text;
};

class SampleWriter {
 public:
  /// `session` must outlive the writer. Continues generate.prompt; without one, the end-of-text token, or a newline;
  /// until one of the tokens `ends` comes.
  /// Throws UsageError if the prompt leaves no position for the sample, or is not of the model's vocabulary.
  SampleWriter(RankContext& context, TrainingSession& session, const Options& options,
               std::unique_ptr<Tokenizer> tokenizer, std::vector<std::int32_t> ends);

  /// Writes a sample with the parameters of the last step, which are not changed. Collective; the text is on rank 0.
  TextSample write();

 private:
  RankContext& context_;
  TrainingSession& session_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TextSample sample_;
  GenerationPrompt prompt_;
  std::vector<std::int32_t> ends_;  ///< the tokens that end a text
  std::size_t most_tokens_ = 0;
  Generator generator_;
};

}  // namespace tessera
