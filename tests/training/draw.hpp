#pragma once
// Configurations drawn from a seed: every option that may not change a bit, the shape of the machine, and a family of
// models.

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>

#include "session_case.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/config/recomputation.hpp"
#include "tessera/schedule/formula.hpp"

namespace tessera::testing {

/// A configuration drawn from a seed: every field that may not change a bit, and the family. session_case.hpp's
/// small_model gives the family's model, for tests that have a reference for each.
struct Drawn {
  Options options;
  Family family = Family::gpt2;
  std::int64_t world = 1, ranks_per_node = 1;
  MachineShape machine;
  std::int64_t bucket = kOffloadBucket;
  std::string text;
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::int64_t below(std::int64_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::int64_t>((state_ >> 11) % static_cast<std::uint64_t>(n));
  }
  template <class T, std::size_t N>
  T of(const std::array<T, N>& choices) {
    return choices[static_cast<std::size_t>(below(N))];
  }

 private:
  std::uint64_t state_;
};

/// Returns the configuration of a seed: `world` ranks (0: drawn from 1, 2, 4, 8), `micro_batches` over all ranks and
/// micro-steps.
inline Drawn draw(std::uint64_t seed, const Options& base, std::int64_t micro_batches, std::int64_t world = 0) {
  Draw d(seed);
  Drawn c;
  c.options = base;
  c.world = d.of(std::array<std::int64_t, 4>{1, 2, 4, 8});
  if (world > 0) c.world = world;
  Options& o = c.options;
  const auto strategies = all_strategies();
  const StrategyRules& rules = strategies[static_cast<std::size_t>(d.below(std::ssize(strategies)))];
  o.shard.strategy = rules.strategy;
  std::int64_t group = c.world;
  while (rules.is_hybrid() && group > 1 && d.below(2) == 0) group /= 2;
  o.shard.group_size = rules.is_hybrid() ? group : 0;
  c.ranks_per_node = c.world;
  while (c.ranks_per_node > 1 && d.below(3) == 0) c.ranks_per_node /= 2;
  o.train.accumulation = micro_batches / c.world;
  o.shard.wrap = d.of(std::array{Wrap::block, Wrap::size, Wrap::model});
  o.shard.min_params = d.of(std::array<std::int64_t, 3>{1000, 3000, 100000});
  o.shard.prefetch_forward = d.below(4);
  o.shard.prefetch_backward = d.below(4);
  o.shard.limit_all_gathers = d.of(std::array<std::int64_t, 3>{0, 2, 3});
  o.shard.reshard_after_forward.drops = d.below(3) != 0;
  o.shard.reduce = d.of(std::array{ReduceWhen::micro_step, ReduceWhen::step});
  o.memory.checkpoint = d.of(std::array{ActivationCheckpointing::none, ActivationCheckpointing::block,
                                        ActivationCheckpointing::selective, ActivationCheckpointing::selective});
  if (o.memory.checkpoint == ActivationCheckpointing::selective) {
    o.memory.recomputed_blocks = d.of(std::array<const char*, 3>{"all", "1/2", "1"});
    o.memory.recomputed_halves = d.of(std::array<const char*, 3>{"attention", "mlp", "attention,mlp"});
  }
  o.run.queues = d.of(std::array{QueueMode::serial, QueueMode::parallel, QueueMode::chaos});
  o.run.threads = 1 + d.below(2);
  o.shard.offload = d.of(std::array{Offload::none, Offload::optimizer, Offload::params});
  if (rules.life == ParameterLife::rest && o.shard.offload == Offload::params) o.shard.offload = Offload::optimizer;
  o.shard.offload_fraction.value = d.of(std::array{1.0, 0.6, 0.2});
  c.bucket = d.of(std::array<std::int64_t, 3>{64, 1024, kOffloadBucket});
  c.machine.chaos_seed = seed;
  c.machine.poison = d.below(2) == 0;
  c.machine.force_pairwise = d.below(4) == 0;
  c.family = d.of(std::array{Family::gpt2, Family::qwen2, Family::llama, Family::qwen3});
  d.below(4);  // of an option that is gone: later draws stay what they were
  const std::int64_t widest = widest_sub_group(rules.strategy, c.world, c.ranks_per_node, group);
  if (o.shard.reshard_after_forward.drops && widest > 1 && d.below(2) == 0)
    o.shard.reshard_after_forward.ranks = d.below(2) == 0 && widest % 2 == 0 ? 2 : widest;
  const std::int64_t inputs = inputs_to_offload(recomputation_of(o.memory), small_model(c.family).layers);
  o.memory.offload_activations = inputs > 0 && d.below(3) != 0;
  o.memory.keep_activated = d.below(2) == 0 ? Tristate::yes : Tristate::no;
  o.optim.name = d.below(3) == 0 ? OptimizerName::muon : OptimizerName::adamw;
  if (o.optim.name == OptimizerName::muon) o.shard.offload = Offload::none;  // refused with it
  if (d.below(2) == 0) o.optim.moments = StateType::bf16;
  c.text = fmt::format(
      "seed {}: {} {} in {} {} world {} group {} nodes of {} wrap {} min {} prefetch {}/{} limit {} reshard {} over {} "
      "reduce {} checkpoint {} activations {} kept {} offload {} of {} in {} queues {} threads {} poison {} pairwise "
      "{}",
      seed, name_of(c.family), name_of(o.optim.name), spelling(o.optim.moments), name_of(o.shard.strategy), c.world,
      group, c.ranks_per_node, name_of(o.shard.wrap), o.shard.min_params, o.shard.prefetch_forward,
      o.shard.prefetch_backward, o.shard.limit_all_gathers, o.shard.reshard_after_forward.drops,
      o.shard.reshard_after_forward.ranks, name_of(o.shard.reduce), describe(recomputation_of(o.memory)),
      o.memory.offload_activations, o.memory.keep_activated == Tristate::yes, name_of(o.shard.offload),
      o.shard.offload_fraction.value, c.bucket, name_of(o.run.queues), o.run.threads, c.machine.poison,
      c.machine.force_pairwise);
  return c;
}

inline void require_same_bits(const RunOutcome& a, const RunOutcome& b) {
  REQUIRE(a.losses == b.losses);
  REQUIRE(a.norms == b.norms);
  REQUIRE(a.evaluations == b.evaluations);
  REQUIRE(a.weights.size() == b.weights.size());
  for (const TensorId i : a.weights.ids()) {
    INFO("tensor " << i.number());
    REQUIRE(a.weights[i].size() == b.weights[i].size());
    REQUIRE(std::memcmp(a.weights[i].data(), b.weights[i].data(), a.weights[i].size() * 4) == 0);
  }
}

/// One rank's results for each family of models, each optimizer and each type of its states.
class References {
 public:
  using Key = std::tuple<Family, OptimizerName, StateType>;
  explicit References(Options options) {
    for (const OptimizerName optimizer : {OptimizerName::adamw, OptimizerName::muon}) {
      for (const Family family : {Family::gpt2, Family::qwen2, Family::llama, Family::qwen3}) {
        for (const StateType moments : {StateType::fp32, StateType::bf16}) {
          options.optim.name = optimizer, options.optim.moments = moments;
          outcomes_[{family, optimizer, moments}] = train_locally(options, small_model(family), 1, 1);
        }
      }
    }
  }
  const RunOutcome& of(const Drawn& drawn) const {
    return outcomes_.at({drawn.family, drawn.options.optim.name, drawn.options.optim.moments});
  }
  const std::map<Key, RunOutcome>& all() const { return outcomes_; }

 private:
  std::map<Key, RunOutcome> outcomes_;
};

}  // namespace tessera::testing
