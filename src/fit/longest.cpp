#include "tessera/fit/longest.hpp"

#include <nlohmann/json.hpp>

#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/fit/decide_fit.hpp"

namespace tessera {

namespace {

LongestRow longest(Options options, Strategy strategy, const RunSite& site, const FitLimits& limits) try {
  options.shard.strategy = strategy;
  if (rules_of(strategy).life != ParameterLife::phase) options.shard.reshard_after_forward = {};
  options.train.seq_len = longest_sequence(options, site, limits);
  options = with_fit_decided(options, site, limits);
  const RunShape shape = run_shape(options, site);
  const auto [schedule, plan] = plan_shape(shape, kQuickPlan);
  LongestRow row{strategy, shape.sequence, limited_bytes(schedule, plan), shape.policy.recomputation,
                 shape.policy.offload_activations};
  if (row.bytes > limits.device)
    row.impossible = fmt::format("even {} tokens need {}", row.tokens, format_bytes(row.bytes));
  return row;
} catch (const UsageError& error) {
  return {.strategy = strategy, .impossible = error.what()};
}

}  // namespace

std::vector<LongestRow> longest_sequences(const Options& asked, const RunSite& site, const FitLimits& limits) {
  std::vector<LongestRow> rows;
  for (const StrategyRules& rules : all_strategies()) rows.push_back(longest(asked, rules.strategy, site, limits));
  return rows;
}

std::string longest_text(const std::vector<LongestRow>& rows, std::int64_t allowed) {
  TextTable table({"strategy", ">tokens per sample", ">memory", "recomputed"});
  for (const LongestRow& row : rows) {
    const std::string name(name_of(row.strategy));
    if (row.impossible.empty())
      table.row({name, std::to_string(row.tokens), format_bytes(row.bytes),
                 describe(row.recomputation) + (row.offloads_inputs ? ", inputs on the host" : "")});
    else
      table.line(name + ": " + row.impossible);
  }
  return fmt::format("the longest samples that fit in {} per rank (train.seq_len = fit)\n{}", format_bytes(allowed),
                     table.text());
}

nlohmann::ordered_json longest_json(const std::vector<LongestRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LongestRow& row : rows) {
    nlohmann::ordered_json& one = list.emplace_back(nlohmann::ordered_json{{"strategy", name_of(row.strategy)}});
    if (!row.impossible.empty()) {
      one["impossible"] = row.impossible;
      continue;
    }
    one.update({{"tokens", row.tokens},
                {"bytes", row.bytes},
                {"recomputation", describe(row.recomputation)},
                {"offload_activations", row.offloads_inputs}});
  }
  return list;
}

}  // namespace tessera
