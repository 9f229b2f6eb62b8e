#include "tessera/data/evaluation.hpp"

#include <cmath>

#include "tessera/base/refuse.hpp"
#include "tessera/data/reader.hpp"

namespace tessera {

std::string perplexity_text(double loss) {
  const double perplexity = std::exp(loss);
  return perplexity < 1e6 ? fmt::format("{:.2f}", perplexity) : fmt::format("{:.3g}", perplexity);
}

std::string describe(const std::vector<Evaluation>& evaluations) {
  std::string text;
  for (const Evaluation& one : evaluations) {
    text += text.empty() ? "validation loss " : ", ";
    text += one.set.empty() ? fmt::format("{:.4f}, perplexity {}", one.loss, perplexity_text(one.loss))
                            : fmt::format("{} {:.4f} (perplexity {})", one.set, one.loss, perplexity_text(one.loss));
  }
  return text;
}

std::int64_t evaluated_windows(const ValidationSet& set, std::int64_t batch, std::int64_t micro_batches) {
  const std::int64_t available = set.samples.samples_per_epoch();
  const bool all = micro_batches == 0 || micro_batches > available / batch;
  return all ? available : micro_batches * batch;
}

std::int64_t evaluated_tokens(const ValidationSet& set, std::int64_t windows) {
  std::vector<std::int32_t> row(static_cast<std::size_t>(set.samples.seq_len()));
  const std::int64_t tokens = counted_targets(*set.source, set.samples, 0, windows, row);
  if (tokens > 0) return tokens;
  throw refusal("{} does not work for validation", set.source->describe())
      .because("the loss counts none of the first {} tokens, which are prompts", windows * set.samples.seq_len())
      .use("text with completions");
}

}  // namespace tessera
