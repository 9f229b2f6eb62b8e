#include "tessera/resolve/adapters.hpp"

#include <fmt/ranges.h>

#include "tessera/base/refuse.hpp"
#include "tessera/model/adapters.hpp"

namespace tessera {

namespace {

std::string list_of(const Architecture& architecture, const Adapters& adapters) {
  return fmt::format("{}", fmt::join(short_names(architecture, adapters.targets), ","));
}

template <class T>
void require_same(const char* option, const T& asked, const T& there, const Options& options) {
  if (asked == there) return;
  throw refuse(option, asked)
      .because("the adapter in lora.from = {} has {}", options.lora.from, there)
      .use("{}, or leave it out", there);
}

}  // namespace

Adapters adapters_of(const Options& options, const Architecture& base, const PeftFolder* folder) {
  const LoraOptions& lora = options.lora;
  Adapters adapters;
  if (folder == nullptr) {
    if (lora.rank == 0) return adapters;
    adapters.rank = lora.rank;
    adapters.alpha = lora.alpha > 0 ? lora.alpha : 2 * static_cast<double>(lora.rank);
    adapters.is_rank_stabilized = lora.rank_stabilized;
    adapters.targets = named_modules(base, lora.targets);
    adapters.dropout = lora.dropout;
    return adapters;
  }
  adapters = folder->adapters();
  if (lora.rank > 0) require_same("lora.rank", lora.rank, adapters.rank, options);
  if (lora.alpha > 0) require_same("lora.alpha", lora.alpha, adapters.alpha, options);
  if (!options.is_open("lora.rank_stabilized"))
    require_same("lora.rank_stabilized", lora.rank_stabilized, adapters.is_rank_stabilized, options);
  if (!options.is_open("lora.targets") && named_modules(base, lora.targets) != adapters.targets)
    require_same("lora.targets", lora.targets, list_of(base, adapters), options);
  if (!options.is_open("lora.dropout")) adapters.dropout = lora.dropout;
  return adapters;
}

Refusal adapters_as_base(const Options& options) {
  if (!options.lora.from.empty()) {
    return refuse("lora.from", options.lora.from)
        .because("{} has its own adapters", options.model.from)
        .hint("Leave it out, or name the model of these adapters instead");
  }
  return refuse("model.from", options.model.from)
      .because("it holds adapters without the weights that they adapt")
      .hint("Go on with it by checkpoint.resume, or export it with export.merged = true and begin from that");
}

void write_adapters(const Architecture& architecture, LoraOptions& options) {
  const Adapters& adapters = architecture.adapters;
  if (!adapters.on()) return;
  options.rank = adapters.rank, options.alpha = adapters.alpha, options.dropout = adapters.dropout;
  options.rank_stabilized = adapters.is_rank_stabilized;
  options.targets = list_of(architecture, adapters);
}

}  // namespace tessera
