#pragma once
// Sharding strategies: one table, a row each. The rest of the program reads a strategy's row, or what is derived from
// it here; nothing else knows one by name.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/grid/grid.hpp"

namespace tessera {

/// How long the full parameters of a unit are kept once they have been gathered.
enum class ParameterLife : std::uint8_t {
  rest,        ///< always; rebuilt in place after each update
  step,        ///< from the first micro-step's forward to the last one's backward
  micro_step,  ///< from forward through backward of one micro-step
  phase        ///< through forward, and again through backward
};

// The table, in the order of `plan`. StrategyRules says what each column means.
// clang-format off
//    enumerator  name          state  life   inner  outer    splits
#define TESSERA_STRATEGIES(X)                                                       \
    X(ddp,        "ddp",        self,  rest,  world, self,    "nothing")            \
    X(zero1,      "zero1",      shard, rest,  shard, self,    "optimizer state")    \
    X(zero2,      "zero2",      shard, step,  shard, self,    "and gradients")      \
    X(zero3,      "zero3",      shard, phase, shard, self,    "and parameters")     \
    X(hsdp,       "hsdp",       shard, phase, shard, replica, "as zero3 in groups") \
    X(hsdp_zero2, "hsdp-zero2", shard, step,  shard, replica, "as zero2 in groups") \
    X(hsdp_zero1, "hsdp-zero1", shard, rest,  shard, replica, "as zero1 in groups")
// clang-format on

enum class Strategy : std::uint8_t {
#define TESSERA_ENUMERATOR(enumerator, ...) enumerator,
  TESSERA_STRATEGIES(TESSERA_ENUMERATOR)
#undef TESSERA_ENUMERATOR
};

/// A row, and what follows from it.
struct StrategyRules {
  Strategy strategy = Strategy::zero3;
  std::string_view name;      ///< as users write it
  Group state = Group::self;  ///< master weights and moments are split over this group; self: full on every rank
  ParameterLife life = ParameterLife::rest;
  Group inner = Group::world;  ///< the group that sums gradients first
  Group outer = Group::self;   ///< then, once per step, this one
  std::string_view splits;     ///< in words, for the option's help: "nothing", "and gradients"

  /// A shard group smaller than the world, replicated.
  constexpr bool is_hybrid() const { return outer != Group::self; }
  /// The default of shard.reduce: gradients stay sharded between micro-steps where parameters do not stay full.
  constexpr bool reduces_each_micro_step() const { return life != ParameterLife::rest; }
  /// shard.reshard_after_forward = false keeps through backward what is otherwise gathered for each phase.
  constexpr ParameterLife life_with(bool reshard_after_forward) const {
    return life == ParameterLife::phase && !reshard_after_forward ? ParameterLife::micro_step : life;
  }
  /// Leaves less on each rank: full parameters stay shorter, or the same is split over more ranks; neither is worse.
  bool shards_more_than(const StrategyRules& other) const;
};

/// All rows.
std::span<const StrategyRules> all_strategies();

/// The row of a strategy.
const StrategyRules& rules_of(Strategy strategy);

inline std::string_view name_of(Strategy strategy) { return rules_of(strategy).name; }

/// Strategies that leave less on each rank, in the order of how much more they send.
std::vector<Strategy> strategies_that_shard_more(Strategy strategy);

/// "hsdp, hsdp-zero2 and hsdp-zero1": the strategies with a shard group smaller than the world.
std::string names_of_hybrids();

/// The most ranks of a node over which slices of units may stay after forward; 1 where strategy or grid allow none.
std::int64_t widest_sub_group(Strategy strategy, std::int64_t world, std::int64_t ranks_per_node,
                              std::int64_t group_size);

/// The grid of a strategy. Parameters are split over one rank where state is full, over `group_size` ranks (0: those of
/// a node) under a hybrid, over the world elsewhere. UsageError where a size does not divide the world. `sub_size`: the
/// ranks over which a slice of a unit stays after forward; 0 or 1: none does.
ProcessGrid grid_for(Strategy strategy, std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size,
                     std::int64_t sub_size = 0);

}  // namespace tessera
