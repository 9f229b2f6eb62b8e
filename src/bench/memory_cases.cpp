#include "bench/memory_cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/config/validate.hpp"

namespace tessera {

namespace {

/// Returns the value that the user gave, or all values.
template <class T>
std::vector<T> given_or_all(const Options& options, const char* name, T given, std::vector<T> all) {
  return options.is_open(name) ? std::move(all) : std::vector<T>{given};
}

std::vector<Strategy> every_strategy() {
  std::vector<Strategy> all;
  for (const StrategyRules& rules : all_strategies()) all.push_back(rules.strategy);
  return all;
}

}  // namespace

std::vector<MemoryCase> memory_cases(const Options& options) {
  using Checkpoint = ActivationCheckpointing;
  std::vector<MemoryCase> cases;
  for (const Strategy strategy : given_or_all(options, "shard.strategy", options.shard.strategy, every_strategy())) {
    for (const Checkpoint checkpoint : given_or_all(options, "memory.checkpoint", options.memory.checkpoint,
                                                    {Checkpoint::none, Checkpoint::selective, Checkpoint::block})) {
      for (const Offload offload : given_or_all(options, "shard.offload", options.shard.offload,
                                                {Offload::none, Offload::optimizer, Offload::params}))
        cases.push_back({strategy, checkpoint, offload});
    }
  }
  return cases;
}

Options case_options(const MemoryCase& one, const Options& options) {
  Options of_case = options;
  of_case.shard.strategy = one.strategy;
  of_case.shard.offload = one.offload;
  of_case.memory.checkpoint = one.checkpoint;
  const bool is_chosen = options.memory.checkpoint == ActivationCheckpointing::selective;
  if (one.checkpoint == ActivationCheckpointing::selective && !is_chosen)
    of_case.memory.recomputed_halves = "attention";
  of_case.train.sample_every = 0;
  of_case.optim.schedule = LearningRateSchedule::constant;
  of_case.optim.warmup_steps = 0;
  drop_unused(of_case, [](const std::string&) { return true; });
  return of_case;
}

std::string describe(const MemoryCase& one) {
  return fmt::format("{}, {}, {}", name_of(one.strategy), name_of(one.checkpoint), name_of(one.offload));
}

}  // namespace tessera
