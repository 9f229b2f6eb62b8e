#include "tessera/fit/fastest.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "tessera/backend/cores.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/fit/search.hpp"

namespace tessera {

namespace {

constexpr std::size_t kWhole = 300;  // combinations, of which all are tried
constexpr int kPrefetch = 2, kStages = 3;
constexpr double kSameMemory = 0.01;  // of what is allowed

/// Calls `use` with every combination of the options, until it returns false. Those without effect are left out.
bool combine_options(const FitRow& row, std::span<const SearchedOption> space,
                     const std::function<bool(const FitRow&)>& use) {
  const auto choices = [&](const FitRow& now, std::size_t dimension) {
    const SearchedOption& option = space[dimension];
    if (!has_effect(now.options, option.name)) return std::vector{now};
    std::vector<FitRow> out(option.values.size(), now);
    for (std::size_t i = 0; i < out.size(); ++i) {
      apply({option.name, option.values[i], "plan.view = fit"}, out[i].options);
      if (option.values[i] == option.own && option.name != "shard.strategy") continue;
      out[i].words.push_back(fmt::format("--{}={}", option.name, option.values[i]));
      if (option.stage < kPrefetch) out[i].kind += out[i].words.back();
    }
    return out;
  };
  return each_combination(row, space.size(), choices, use);
}

/// Plans and predicts a configuration of the run `own`.
void fill(FitRow& row, const RunShape& own, const Cluster& cluster, std::int64_t allowed) try {
  drop_unused(row.options, [](const std::string&) { return true; });
  validate(row.options);
  validate_for_world(row.options, own.world, own.ranks_per_node);
  const FitLimits limits{allowed};
  const Options options = with_fit_decided(row.options, own, limits);
  const RunShape shape = with_copies_kept(run_shape(options, own), options, [&] { return limits; });
  const auto [schedule, plan] = plan_shape(shape, kQuickPlan);  // most of the time would go into the last percent
  row.bytes = limited_bytes(schedule, plan);
  if (row.bytes > allowed && plan.at(MemorySpace::device).lower_bound() <= allowed)
    row.bytes = limited_bytes(plan_shape(shape));
  if (row.bytes > allowed) return;
  row.prediction = predict(schedule, plan, options, cluster);
  row.prediction->timeline.spans.clear();
} catch (const UsageError& error) {
  row.refused = error.what();
}

/// Tries every combination from each start, on all cores, and sorts the rows.
void try_all(const std::vector<FitRow>& starts, std::span<const SearchedOption> space, const RunShape& own,
             const Cluster& cluster, FitSearch& search) {
  const auto before = std::ssize(search.rows);
  std::set<std::vector<std::string>> seen;
  for (const FitRow& row : search.rows) seen.insert(row.words);
  for (const FitRow& start : starts) {
    combine_options(start, space, [&](const FitRow& row) {
      if (seen.insert(row.words).second) search.rows.push_back({row.options, row.words, row.kind});
      return true;
    });
  }
  ThreadPool(allowed_cores()).parallel_for(std::ssize(search.rows) - before, [&](std::int64_t i, int) {
    fill(search.rows[static_cast<std::size_t>(before + i)], own, cluster, search.allowed);
  });
  std::ranges::stable_sort(search.rows, {}, [](const FitRow& row) {
    const auto& p = row.prediction;
    return std::tuple{!row.refused.empty(), !p, p ? std::llround(1e9 * p->step_seconds) : 0, p ? row.words.size() : 0,
                      row.bytes};
  });
}

/// Puts those first that are as fast as the fastest: the ones with the least memory, then with the fewest options.
void prefer_small_and_simple(FitSearch& search) {
  search.least_seconds = search.rows.front().prediction->step_seconds;
  const auto equal_until = std::ranges::find_if(search.rows, [&](const FitRow& row) {
    return !row.prediction || row.prediction->step_seconds > (1 + kSameTime) * search.least_seconds;
  });
  const double grain = kSameMemory * static_cast<double>(search.allowed);
  std::ranges::stable_sort(search.rows.begin(), equal_until, {}, [&](const FitRow& row) {
    return std::tuple{std::llround(static_cast<double>(row.bytes) / grain), row.words.size(),
                      row.prediction->step_seconds};
  });
}

}  // namespace

std::vector<SearchedOption> searched_options(const Options& options) {
  const std::int64_t ranks = options.plan.ranks;
  std::vector<std::string> strategies, groups;
  for (const StrategyRules& rules : all_strategies()) strategies.emplace_back(rules.name);
  if (ranks == 1) strategies = {std::string(name_of(options.shard.strategy))};  // they are all the same
  for (std::int64_t size = 2; size < ranks; ++size) {
    if (ranks % size == 0) groups.push_back(std::to_string(size));
  }
  std::vector<SearchedOption> all{{"shard.strategy", "", strategies},
                                  {"shard.group_size", "", groups},
                                  {"shard.wrap", "", {"block", "size", "model"}},
                                  {"memory.checkpoint", "", {"none", "selective", "block"}},
                                  {"memory.checkpoint_parts", "", {"attention", "mlp"}},
                                  {"memory.checkpoint_blocks", "", {"all", "1/2"}},
                                  {"memory.offload_activations", "", {"false", "true"}, 1},
                                  {"shard.offload", "", {"none", "optimizer", "params"}, 1},
                                  {"shard.prefetch_forward", "", {"0", "1", "2"}, kPrefetch},
                                  {"shard.prefetch_backward", "", {"0", "1", "2"}, kPrefetch},
                                  {"shard.limit_all_gathers", "", {"2", "3"}, kPrefetch}};
  std::erase_if(
      all, [&](const SearchedOption& one) { return one.values.empty() || (ranks == 1 && one.stage == kPrefetch); });
  for (SearchedOption& option : all) {
    option.own = value_of(options, option.name);
    const bool is_new = std::ranges::find(option.values, option.own) == option.values.end() && option.own != "0";
    if (is_new && has_effect(options, option.name)) option.values.push_back(option.own);
  }
  return all;
}

FitSearch search_fit(const Options& options, const RunShape& own, const Cluster& cluster,
                     std::vector<SearchedOption> space) {
  if (options.plan.memory == 0)
    throw refuse("plan.view", "fit")
        .because("neither plan.memory nor {} says how much memory there is", cluster.file)
        .hint("Give plan.memory");
  FitSearch search{std::move(space), options.plan.memory};
  std::vector<FitRow> starts{{options}};
  std::size_t count = 0;
  search.in_stages = !combine_options(starts[0], search.space, [&](const FitRow&) { return ++count <= kWhole; });
  if (!search.in_stages) try_all(starts, search.space, own, cluster, search);
  for (int stage = 0; search.in_stages && stage < kStages; ++stage) {
    std::vector<SearchedOption> part = search.space;
    std::erase_if(part, [&](const SearchedOption& option) { return option.stage != stage; });
    try_all(starts, part, own, cluster, search);
    starts = search.rows;
    starts.resize(std::min(kKept, starts.size()), {options});
  }
  if (search.rows.front().prediction) prefer_small_and_simple(search);
  const FitRow& best = search.rows.front();
  if (!best.refused.empty()) throw UsageError("{}", search.rows.back().refused);  // that came furthest
  if (best.prediction) return search;
  throw DoesNotFit("plan.memory = {} is too little for all {} that were tried. The smallest needs {}: {}.",
                   format_bytes(search.allowed), counted(std::ssize(search.rows), "configuration"),
                   format_bytes(best.bytes), fmt::join(best.words, " "));
}

}  // namespace tessera
