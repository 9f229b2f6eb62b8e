// Which options a command reads.
#include <algorithm>

#include "tessera/config/command.hpp"

namespace tessera {

bool reads(CommandKind kind, std::string_view option) {
  static constexpr std::string_view planned[] = {"model.",
                                                 "shard.",
                                                 "precision.",
                                                 "memory.",
                                                 "grid.",
                                                 "plan.",
                                                 "run.device",
                                                 "run.deterministic",
                                                 "train.micro_batch",
                                                 "train.accumulation",
                                                 "train.seq_len",
                                                 "comm.backend",
                                                 "checkpoint.async",
                                                 "data.val_fraction",
                                                 "data.val_source",
                                                 "data.document_mask",
                                                 "train.global_batch",
                                                 "train.sample_every",
                                                 "generate.max_tokens"};
  // A model in memory, sharded over ranks, whatever is done with it.
  static constexpr std::string_view loads[] = {"shard.strategy",
                                               "shard.group_size",
                                               "shard.wrap",
                                               "shard.min_params",
                                               "shard.prefetch_forward",
                                               "shard.limit_all_gathers",
                                               "grid.",
                                               "comm.",
                                               "precision.compute",
                                               "train.micro_batch",
                                               "data.tokenizer",
                                               "run.device",
                                               "run.deterministic",
                                               "run.threads",
                                               "run.lanes",
                                               "run.timeout",
                                               "run.graph",
                                               "run.share_gpu",
                                               "checkpoint.timeout"};
  static constexpr std::string_view evaluates[] = {
      "train.seq_len",     "train.eval_batches",    "data.source",     "data.val_source",
      "data.val_fraction", "data.synthetic_tokens", "data.seed",       "data.text_key",
      "data.separator",    "data.on_error",         "data.cache",      "data.document_mask",
      "run.attention",     "memory.keep_activated", "precision.logits"};
  static constexpr std::string_view samples[] = {"generate.prompt", "generate.max_tokens", "generate.temperature",
                                                 "generate.top_k",  "generate.top_p",      "generate.seed"};
  static constexpr std::string_view prepared[] = {
      "data.source", "data.val_source", "data.tokenizer", "data.text_key", "data.separator", "data.on_error",
      "data.cache",  "data.output",     "model.from",     "run.threads",   "run.dir",        "run.name"};
  const auto is_in = [&](std::string_view section) { return option.starts_with(section); };
  const bool of_train = (!is_in("plan.") || option == "plan.memory") && !is_in("export.") && !is_in("bench.") &&
                        !is_in("sweep.") && !is_in("eval.") && option != "data.output" &&
                        (!is_in("generate.") || std::ranges::find(samples, option) != std::end(samples));
  switch (kind) {
    case CommandKind::train:
      return of_train;
    case CommandKind::bench:
      return (of_train && option != "run.trace") || is_in("bench.");
    case CommandKind::plan:
      return std::ranges::any_of(planned, is_in);
    case CommandKind::data:
      return std::ranges::find(prepared, option) != std::end(prepared);
    case CommandKind::sweep:
      return of_train || is_in("sweep.");
    case CommandKind::generate:
      return is_in("generate.") || std::ranges::any_of(loads, is_in);
    case CommandKind::eval:
      return is_in("eval.") || std::ranges::any_of(loads, is_in) || std::ranges::any_of(evaluates, is_in);
    case CommandKind::export_:
      return is_in("export.");
    default:
      return false;
  }
}

}  // namespace tessera
