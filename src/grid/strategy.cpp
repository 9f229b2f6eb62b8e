#include "tessera/grid/strategy.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tessera {

namespace {

constexpr StrategyRules kTable[] = {
#define TESSERA_ROW(enumerator, name, state, life, inner, outer, splits) \
  {Strategy::enumerator, name, Group::state, ParameterLife::life, Group::inner, Group::outer, splits},
    TESSERA_STRATEGIES(TESSERA_ROW)
#undef TESSERA_ROW
};

/// How little of parameters, gradients and state is full. The longer parameters are kept, the more is full.
constexpr int sharded(const StrategyRules& rules) {
  return (rules.state == Group::self ? 0 : 1) + static_cast<int>(rules.life);
}

}  // namespace

std::span<const StrategyRules> all_strategies() { return kTable; }

const StrategyRules& rules_of(Strategy strategy) { return kTable[static_cast<std::size_t>(strategy)]; }

bool StrategyRules::shards_more_than(const StrategyRules& other) const {
  const bool over_as_many = !is_hybrid() || other.is_hybrid();
  const bool over_more = !is_hybrid() && other.is_hybrid();
  return over_as_many && sharded(*this) >= sharded(other) && (over_more || sharded(*this) > sharded(other));
}

std::vector<Strategy> strategies_that_shard_more(Strategy strategy) {
  std::vector<Strategy> more;
  for (const StrategyRules& rules : kTable) {
    if (rules.shards_more_than(rules_of(strategy))) more.push_back(rules.strategy);
  }
  std::ranges::stable_sort(more, {},
                           [](Strategy s) { return std::pair(!rules_of(s).is_hybrid(), sharded(rules_of(s))); });
  return more;
}

std::string names_of_hybrids() {
  std::vector<std::string_view> names;
  for (const StrategyRules& rules : kTable) {
    if (rules.is_hybrid()) names.push_back(rules.name);
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

namespace {

/// Returns over how many ranks parameters are split.
std::int64_t shard_group(Strategy strategy, std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size) {
  const StrategyRules& rules = rules_of(strategy);
  if (rules.state == Group::self) return 1;
  if (!rules.is_hybrid()) return world;
  return group_size > 0 ? group_size : std::min(ranks_per_node, world);
}

}  // namespace

std::int64_t widest_sub_group(Strategy strategy, std::int64_t world, std::int64_t ranks_per_node,
                              std::int64_t group_size) {
  if (rules_of(strategy).life != ParameterLife::phase) return 1;
  return std::gcd(shard_group(strategy, world, ranks_per_node, group_size), ranks_per_node);
}

ProcessGrid grid_for(Strategy strategy, std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size,
                     std::int64_t sub_size) {
  return {world, ranks_per_node, shard_group(strategy, world, ranks_per_node, group_size),
          std::max<std::int64_t>(sub_size, 1)};
}

}  // namespace tessera
