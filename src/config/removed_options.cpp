#include "tessera/config/removed_options.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/config/options.hpp"

namespace tessera {

namespace {

constexpr std::string_view kNccl = "Leave it out: NCCL's own choice serves, which its environment variables change";

}  // namespace

std::span<const RemovedOption> removed_options() {
  static constexpr RemovedOption removed[] = {
      {"metrics.tensorboard", "false",
       "Leave it out: tessera-report RUN --tensorboard DIR writes event files, also while the run goes on"},
      {"shard.persistence_threshold", "0",
       "Leave it out: small tensors are gathered with the others of their block, which costs few bytes"},
      {"shard.tied_reduce", "once",
       "Leave it out: the gradient of a tied table is summed over the ranks once, which sends less"},
      {"comm.register_buffers", "false", kNccl},
      {"comm.symmetric", "false", kNccl},
      {"comm.copy_engine_gather", "false", kNccl},
      {"comm.min_ctas", "0", "Leave it out, and set NCCL_MIN_CTAS"},
      {"comm.max_ctas", "0", "Leave it out, and set NCCL_MAX_CTAS"},
      {"checkpoint.keep_every_weights", "0",
       "Leave it out: checkpoint.keep_every keeps whole checkpoints, of which tessera export makes weights alone"}};
  return removed;
}

const RemovedOption* find_removed(std::string_view name) {
  const auto found = std::ranges::find(removed_options(), name, &RemovedOption::name);
  return found == removed_options().end() ? nullptr : &*found;
}

std::string dropped_line(const Options& options) {
  if (options.dropped.empty()) return {};
  return fmt::format("dropped {}: a default of options that only earlier versions have",
                     fmt::join(options.dropped, ", "));
}

}  // namespace tessera
