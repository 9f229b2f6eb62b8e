#include "tessera/config/recomputation.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "tessera/base/decimal.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/value_text.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMostBlocks = 1 << 20;

std::optional<std::int64_t> number_in(std::string_view text) {
  const std::optional<std::int64_t> number = whole_number(text);
  return number && *number >= 0 && *number <= kMostBlocks ? number : std::nullopt;
}

[[noreturn]] void refuse_blocks(const std::string& text) {
  throw refuse("memory.checkpoint_blocks", shown(text)).use("all, a share such as 1/2, or a list such as 0,2,5-8");
}

void take_share(const std::string& text, std::size_t slash, Recomputation& out) {
  const auto share = number_in(std::string_view(text).substr(0, slash));
  const auto of = number_in(std::string_view(text).substr(slash + 1));
  if (!share || !of || *of < 1 || *share < 1 || *share > *of) refuse_blocks(text);
  out.share = *share, out.of = *of;
}

void take_list(const std::string& text, Recomputation& out) {
  for (const std::string_view item : items_of(text)) {
    const std::size_t dash = item.find('-');
    const auto first = number_in(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_in(item.substr(dash + 1));
    if (!first || !last || *last < *first) refuse_blocks(text);
    for (std::int64_t block = *first; block <= *last; ++block) out.listed.push_back(block);
  }
  std::ranges::sort(out.listed);
  out.listed.erase(std::ranges::unique(out.listed).begin(), out.listed.end());
}

void take_parts(const std::string& text, Recomputation& out) {
  for (const std::string_view item : items_of(text)) {
    bool& half = item == "attention" ? out.attention : out.mlp;
    if ((item != "attention" && item != "mlp") || half)
      throw refuse("memory.checkpoint_parts", shown(text)).use("attention, mlp, or both with a comma");
    half = true;
  }
}

}  // namespace

bool Recomputation::has_block(std::int64_t block) const {
  if (!listed.empty()) return std::ranges::binary_search(listed, block);
  return (block + 1) * share / of > block * share / of;
}

Recomputation recomputation_of(const MemoryOptions& options) {
  switch (options.checkpoint) {
    case ActivationCheckpointing::none:
      return {};
    case ActivationCheckpointing::block:
      return Recomputation::all_blocks();
    case ActivationCheckpointing::fit:
      throw refuse("memory.checkpoint", "fit")
          .because("there is no memory limit to decide by")
          .hint("Give plan.memory, or use none, block or selective");
    case ActivationCheckpointing::selective:
      break;
  }
  Recomputation chosen;
  take_parts(options.recomputed_halves, chosen);
  if (options.recomputed_blocks == "all") return chosen;
  const std::size_t slash = options.recomputed_blocks.find('/');
  if (slash == std::string::npos) {
    take_list(options.recomputed_blocks, chosen);
  } else {
    take_share(options.recomputed_blocks, slash, chosen);
  }
  return chosen;
}

MemoryOptions options_of(const Recomputation& recomputation, MemoryOptions options) {
  static const MemoryOptions defaults;
  options.recomputed_blocks = defaults.recomputed_blocks;
  options.recomputed_halves = defaults.recomputed_halves;
  options.checkpoint = recomputation.is_all() ? ActivationCheckpointing::block : ActivationCheckpointing::selective;
  if (!recomputation.is_any()) options.checkpoint = ActivationCheckpointing::none;
  if (options.checkpoint != ActivationCheckpointing::selective) return options;
  if (!recomputation.listed.empty()) {
    options.recomputed_blocks = fmt::format("{}", fmt::join(recomputation.listed, ","));
  } else if (recomputation.share != recomputation.of) {
    options.recomputed_blocks = fmt::format("{}/{}", recomputation.share, recomputation.of);
  }
  if (!recomputation.attention) options.recomputed_halves = "mlp";
  if (!recomputation.mlp) options.recomputed_halves = "attention";
  return options;
}

std::string describe(const Recomputation& recomputation) {
  if (!recomputation.is_any()) return "none";
  if (recomputation.is_all()) return "block";
  const char* both = recomputation.attention ? "attention and mlp" : "mlp";
  const std::string halves = recomputation.mlp ? both : "attention";
  if (!recomputation.listed.empty())
    return fmt::format("{} of blocks {}", halves, fmt::join(recomputation.listed, ","));
  if (recomputation.share == recomputation.of) return halves;
  return fmt::format("{} of {}/{} of the blocks", halves, recomputation.share, recomputation.of);
}

void require_blocks(const Recomputation& recomputation, std::int64_t layers) {
  if (recomputation.listed.empty() || recomputation.listed.back() < layers) return;
  throw refusal("memory.checkpoint_blocks names block {}, but the model has {}", recomputation.listed.back(), layers)
      .use("0 to {}", layers - 1);
}

}  // namespace tessera
