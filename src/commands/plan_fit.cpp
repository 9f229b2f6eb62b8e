#include "commands/plan_fit.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tessera/backend/cores.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kWhole = 300, kKept = 20, kShown = 10;  // combinations: all are tried; go on; are listed
constexpr int kPrefetch = 2, kStages = 3;

/// What compute can lose time to, by category.
constexpr std::array<const char*, kTimeCategories> kLosses = {
    "waits for tokens",        "forward takes longer",   "recomputation",
    "backward takes longer",   "optimizer takes longer", "gathers exposed",
    "reduce-scatters exposed", "all-reduces exposed",    "copies and the host's work exposed"};

bool has_effect(const Options& options, const std::string& name) {
  const std::vector<UnusedOption> unused = unused_options(options);
  return std::ranges::find(unused, name, &UnusedOption::name) == unused.end();
}

/// Calls `use` with every combination of the options, until it returns false. Those without effect are left out.
bool combine_options(const FitRow& row, std::span<const SearchedOption> space,
                     const std::function<bool(const FitRow&)>& use) {
  if (space.empty()) return use(row);
  const SearchedOption& option = space[0];
  if (!has_effect(row.options, option.name)) return combine_options(row, space.subspan(1), use);
  return std::ranges::all_of(option.values, [&](const std::string& value) {
    FitRow one = row;
    apply({option.name, value, "plan.view = fit"}, one.options);
    if (value != option.own || option.name == "shard.strategy") {
      one.words.push_back(fmt::format("--{}={}", option.name, value));
      if (option.stage < kPrefetch) one.kind += one.words.back();
    }
    return combine_options(one, space.subspan(1), use);
  });
}

/// Plans and predicts a configuration.
void fill(FitRow& row, const Cluster& cluster, std::int64_t allowed) try {
  drop_unused(row.options, [](const std::string&) { return true; });
  validate(row.options);
  ResolveSite site(Purpose::sweep, row.options.plan.ranks, {allowed, 0, "plan.memory"});
  site.effort = {false, 0};  // most of the time would go into the last percent
  const ResolvedRun run(row.options, site);
  row.bytes = limited_bytes(run.planned.schedule, run.planned.plan);
  if (row.bytes > allowed && run.planned.plan.at(MemorySpace::device).lower_bound() <= allowed) {
    const PlannedRun planned = plan_shape(run.shape);
    row.bytes = limited_bytes(planned.schedule, planned.plan);
  }
  if (row.bytes > allowed) return;
  row.prediction = predict(run.planned.schedule, run.planned.plan, run.options, cluster);
  row.prediction->timeline.spans.clear();
} catch (const UsageError& error) {
  row.refused = error.what();
}

/// Tries every combination from each start, on all cores, and sorts the rows.
void try_all(const std::vector<FitRow>& starts, std::span<const SearchedOption> space, const Cluster& cluster,
             FitSearch& search) {
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
    fill(search.rows[static_cast<std::size_t>(before + i)], cluster, search.allowed);
  });
  std::ranges::stable_sort(search.rows, {}, [](const FitRow& row) {
    const auto& p = row.prediction;
    return std::tuple{!row.refused.empty(), !p, p ? std::llround(1e9 * p->step_seconds) : 0, p ? row.words.size() : 0,
                      row.bytes};
  });
}

/// Why configurations of a strategy lost: they do not fit by so many bytes, or are slower by such a share.
struct Loss {
  Strategy strategy = Strategy::zero3;
  bool fits = false;
  std::string_view why = "does not fit";
  double amount = 0, most = 0;  ///< of the nearest miss; of the farthest
  std::int64_t count = 1;

  std::string text() const {
    const auto words = [&](double one) {
      return fits ? fmt::format("{:.1f}%", 100 * one) : format_bytes(static_cast<std::int64_t>(one));
    };
    const std::string range = words(amount) + (words(most) == words(amount) ? "" : " to " + words(most));
    return fits ? fmt::format("{} slower: {}", range, why) : fmt::format("{} by {}", why, range);
  }
};

/// Names the category in which a configuration loses most time to the fastest.
Loss loss_of(const FitRow& row, const FitSearch& search) {
  const Strategy strategy = row.options.shard.strategy;
  const double excess = static_cast<double>(row.bytes - search.allowed);
  if (!row.prediction) return {strategy, false, "does not fit", excess, excess};
  const Prediction &one = *row.prediction, &best = *search.rows[0].prediction;
  const double slower = one.step_seconds / best.step_seconds - 1;
  Loss loss{strategy, true, "host", slower, slower};
  double most = one.timeline.host - best.timeline.host;
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const double more = one.timeline.time[i] - best.timeline.time[i];
    if (more > most) most = more, loss.why = kLosses[i];
  }
  return loss;
}

/// The answer: rows to list, and the others by strategy and reason.
struct FitReport {
  std::vector<const FitRow*> fastest;  ///< of each kind its best prefetch
  std::map<std::tuple<Strategy, bool, std::string_view>, Loss> losers;
  std::map<std::string, std::int64_t> refused;
  std::int64_t fitting = 0;

  explicit FitReport(const FitSearch& search) {
    std::set<std::string> kinds;
    for (const FitRow& row : search.rows) {
      if (!row.refused.empty()) {
        ++refused[row.refused];
        continue;
      }
      fitting += row.prediction ? 1 : 0;
      if (row.prediction && fastest.size() < kShown && kinds.insert(row.kind).second) {
        fastest.push_back(&row);
        continue;
      }
      const Loss loss = loss_of(row, search);
      const auto [same, is_new] = losers.try_emplace({loss.strategy, loss.fits, loss.why}, loss);
      if (!is_new) ++same->second.count, same->second.most = loss.amount;  // rows come in this order
    }
  }
  std::string why(const FitRow* row, const FitSearch& search) const {
    return row == fastest[0] ? "" : loss_of(*row, search).text();
  }
};

std::string command_of(const FitSearch& search, const Options& given) {
  Options options = search.rows[0].options;
  if (!given.is_given("grid.ranks_per_node")) options.grid = {};                       // the machine says it itself,
  if (!given.is_given("plan.memory")) options.plan.memory = 0;                         // and this
  for (const SearchedOption& option : search.space) options.given.erase(option.name);  // may be at their defaults
  options.run.dir = RunOptions{}.dir, options.run.name = RunOptions{}.name, options.given.erase("run.dir");
  std::string text = options.plan.ranks > 1 ? fmt::format("mpiexec -n {} ", options.plan.ranks) : "";
  text += "tessera train";
  for (const std::string& word : train_arguments(options)) text += " " + shell_quoted(word);
  return text;
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
  const std::vector<OptionValue> values = flat_options(options);
  for (SearchedOption& option : all) {
    option.own = std::ranges::find(values, option.name, &OptionValue::name)->value;
    const bool is_new = std::ranges::find(option.values, option.own) == option.values.end() && option.own != "0";
    if (is_new && has_effect(options, option.name)) option.values.push_back(option.own);
  }
  return all;
}

FitSearch search_fit(const Options& options, const Cluster& cluster, std::vector<SearchedOption> space) {
  if (options.plan.memory == 0)
    throw refuse("plan.view", "fit")
        .because("neither plan.memory nor {} says how much memory there is", cluster.file)
        .hint("Give plan.memory");
  FitSearch search{std::move(space), options.plan.memory};
  std::vector<FitRow> starts{{options}};
  std::size_t count = 0;
  search.in_stages = !combine_options(starts[0], search.space, [&](const FitRow&) { return ++count <= kWhole; });
  if (!search.in_stages) try_all(starts, search.space, cluster, search);
  for (int stage = 0; search.in_stages && stage < kStages; ++stage) {
    std::vector<SearchedOption> part = search.space;
    std::erase_if(part, [&](const SearchedOption& option) { return option.stage != stage; });
    try_all(starts, part, cluster, search);
    starts = search.rows;
    starts.resize(std::min(kKept, starts.size()), {options});
  }
  const FitRow& best = search.rows.front();
  if (!best.refused.empty()) throw UsageError("{}", search.rows.back().refused);  // that came furthest
  if (best.prediction) return search;
  throw DoesNotFit("plan.memory = {} is too little for all {} that were tried. The smallest needs {}: {}.",
                   format_bytes(search.allowed), counted(std::ssize(search.rows), "configuration"),
                   format_bytes(best.bytes), fmt::join(best.words, " "));
}

std::string fit_search_text(const FitSearch& search, const Options& options) {
  const FitReport answer(search);
  TextTable table(
      {">step", ">+-", ">tokens/s", ">memory", "options, in addition to the run's own", "against the fastest"});
  for (const FitRow* row : answer.fastest) {
    const Prediction& p = *row->prediction;
    table.row({format_seconds(p.step_seconds), fmt::format("{:.0f}%", 100 * p.uncertainty),
               format_count(static_cast<std::int64_t>(p.tokens_per_second)), format_bytes(row->bytes),
               fmt::format("{}", fmt::join(row->words, " ")), answer.why(row, search)});
  }
  TextTable losers({"strategy", ">configurations", "why"});
  for (const auto& [key, of] : answer.losers)
    losers.row({std::string(name_of(of.strategy)), std::to_string(of.count), of.text()});
  std::string space;
  for (const auto& [why, count] : answer.refused) losers.line(fmt::format("{} refused: {}", count, why));
  for (const SearchedOption& one : search.space)
    space += fmt::format("  {} = {}\n", one.name, fmt::join(one.values, ", "));
  return fmt::format(
      "the fastest that fit in {} per rank, each with its best prefetch\n{}\nthe others\n{}\nsearched: {}, {} fit; "
      "batch, precision and all else as given\n{}{}\n{}\n",
      format_bytes(search.allowed), table.text(), losers.text(), counted(std::ssize(search.rows), "configuration"),
      answer.fitting, space,
      search.in_stages ? fmt::format("  in stages, so not every combination: strategy, units and recomputation; then "
                                     "offload for the {0} best; then prefetch for the {0} best\n",
                                     kKept)
                       : "",
      command_of(search, options));
}

Json fit_search_json(const FitSearch& search, const Options& options) {
  const FitReport answer(search);
  Json json{{"configurations", search.rows.size()}, {"fitting", answer.fitting}, {"in_stages", search.in_stages}};
  for (const SearchedOption& option : search.space) json["space"][option.name] = option.values;
  for (const FitRow* row : answer.fastest)
    json["fastest"].push_back({{"options", row->words},
                               {"to_allocate", row->bytes},
                               {"prediction", prediction_json(*row->prediction)},
                               {"why", answer.why(row, search)}});
  json["losers"] = Json::array();
  for (const auto& [key, of] : answer.losers)
    json["losers"].push_back({{"strategy", name_of(of.strategy)}, {"configurations", of.count}, {"why", of.text()}});
  json["refused"] = answer.refused;
  json["command"] = command_of(search, options);
  return json;
}

}  // namespace tessera
