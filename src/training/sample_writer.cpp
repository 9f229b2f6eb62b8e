#include "tessera/training/sample_writer.hpp"

#include <algorithm>

#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/generate/prompts.hpp"
#include "tessera/generate/text_stream.hpp"

namespace tessera {

namespace {

SamplingRules rules_of_samples(const GenerateOptions& options) {
  return {options.temperature, options.top_k, options.top_p, static_cast<std::uint64_t>(options.seed)};
}

}  // namespace

SampleWriter::SampleWriter(RankContext& context, TrainingSession& session, const Options& options,
                           std::unique_ptr<Tokenizer> tokenizer, std::vector<std::int32_t> ends)
    : context_(context),
      session_(session),
      tokenizer_(std::move(tokenizer)),
      ends_(std::move(ends)),
      generator_(session.schedule(), session.resources(), session.player(), rules_of_samples(options.generate),
                 tokenizer_->vocab()) {
  const ModelParts& prefill = session.schedule().generation_parts->prefill;
  const std::vector<std::int32_t> begin = begin_of(*tokenizer_, options.data.begin);
  sample_.prompt = options.generate.prompt;
  if (sample_.prompt.empty() && begin.empty() && !tokenizer_->end_of_text()) sample_.prompt = "\n";
  prompt_.tokens = prompt_tokens(*tokenizer_, *tokenizer_->encoder(), begin, sample_.prompt, prefill.architecture.vocab,
                                 "generate.prompt");
  const auto length = static_cast<std::int64_t>(prompt_.tokens.size());
  if (length >= prefill.cache) {
    throw refusal("generate.prompt has {}, but train.sample_every writes texts of {}", counted(length, "token"),
                  prefill.cache)
        .use("at most {}", prefill.cache - 1);
  }
  most_tokens_ = static_cast<std::size_t>(std::min(options.generate.max_tokens, prefill.cache - length));
}

TextSample SampleWriter::write() {
  sample_.text.clear();
  TextStream stream({});
  std::size_t count = 0;
  std::vector<GenerationPrompt> mine;
  if (context_.rank() == 0) mine.push_back(prompt_);
  generator_.run(mine, [&](std::size_t, std::int32_t token) {
    if (std::ranges::find(ends_, token) != ends_.end()) return false;
    sample_.text += stream.push(tokenizer_->bytes_of(token));
    return ++count < most_tokens_;
  });
  sample_.text += stream.finish();
  return sample_;
}

}  // namespace tessera
