#pragma once
// Sharding strategies as a table: a row of layouts and lifetimes. The builder inserts the collective that turns the
// layout there is into the one that is read; nothing outside this room knows a strategy's name.

#include "tessera/schedule/build.hpp"

namespace tessera {

/// How long a whole copy of a unit's parameters lives once it was gathered.
enum class ParameterLife : std::uint8_t {
  rest,        ///< for ever; made again in place after each update
  step,        ///< from the first micro-step's forward to the last one's backward
  micro_step,  ///< from forward through backward of one micro-step
  phase        ///< through forward, and again through backward
};

struct StrategyRules {
  Group state_split = Group::shard;  ///< master and moments; self = whole
  ParameterLife life = ParameterLife::phase;
  Group inner = Group::shard;        ///< the group that sums gradients first
  Group outer = Group::replica;      ///< then, once a step, this one
  bool gathers_are_limited = false;  ///< shard.limit_all_gathers applies
};

StrategyRules rules_of(const SchedulePolicy& policy);

}  // namespace tessera
