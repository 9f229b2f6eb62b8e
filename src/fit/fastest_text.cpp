// The answer of plan.view = fit as text and as JSON.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/base/wrap.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/fit/fastest.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kShown = 10;   // configurations
constexpr std::size_t kOptions = 4;  // columns before the options of a row

/// What compute can lose time to, by category.
constexpr std::array<const char*, kTimeCategories> kLosses = {
    "waits for tokens",        "forward takes longer",   "recomputation",
    "backward takes longer",   "optimizer takes longer", "gathers exposed",
    "reduce-scatters exposed", "all-reduces exposed",    "copies and the host's work exposed"};

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
    if (!fits) return fmt::format("{} by {}", why, range);
    return words(most) == words(0) ? "as fast" : fmt::format("{} slower: {}", range, why);
  }
};

const FitRow& fastest_of(const FitSearch& search) {
  return *std::ranges::find_if(search.rows, [&](const FitRow& row) {
    return row.prediction && row.prediction->step_seconds == search.least_seconds;
  });
}

/// Names the category in which a configuration loses most time to the fastest.
Loss loss_of(const FitRow& row, const FitSearch& search) {
  const Strategy strategy = row.options.shard.strategy;
  const double excess = static_cast<double>(row.bytes - search.allowed);
  if (!row.prediction) return {strategy, false, "does not fit", excess, excess};
  const Prediction &one = *row.prediction, &best = *fastest_of(search).prediction;
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
  std::vector<const FitRow*> fastest;  ///< of each kind its best prefetch, in the order of the search
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
      if (is_new) continue;
      Loss& all = same->second;
      ++all.count, all.amount = std::min(all.amount, loss.amount), all.most = std::max(all.most, loss.amount);
    }
  }
  std::string why(const FitRow* row, const FitSearch& search) const {
    return row == &fastest_of(search) ? "the fastest" : loss_of(*row, search).text();
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

/// Breaks a command so that it can be pasted, unless a quoted word might be broken.
std::string on_lines(const std::string& command) {
  if (command.find('\'') != std::string::npos) return command;
  std::string text = wrapped(command, kOptions, kFitWidth - 2);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.insert(at, " \\");
  return text;
}

}  // namespace

std::string fit_search_text(const FitSearch& search, const Options& options) {
  const FitReport answer(search);
  TextTable table({">step", ">+-", ">tokens/s", ">memory", "against the fastest"});
  for (const FitRow* row : answer.fastest) {
    const Prediction& p = *row->prediction;
    table.row({format_seconds(p.step_seconds), fmt::format("{:.0f}%", 100 * p.uncertainty),
               format_count(static_cast<std::int64_t>(p.tokens_per_second)), format_bytes(row->bytes),
               answer.why(row, search)});
    table.line(wrapped(fmt::format("    {}", fmt::join(row->words, " ")), kOptions + 2, kFitWidth - 2));
  }
  TextTable losers({"strategy", ">configurations", "why"});
  for (const auto& [key, of] : answer.losers)
    losers.row({std::string(name_of(of.strategy)), std::to_string(of.count), of.text()});
  std::string space;
  for (const auto& [why, count] : answer.refused)
    losers.line(wrapped(fmt::format("{} refused: {}", count, why), kOptions, kFitWidth - 2));
  for (const SearchedOption& one : search.space)
    space += fmt::format("  {} = {}\n", one.name, fmt::join(one.values, ", "));
  return fmt::format(
      "the fastest that fit in {} per rank, each with its best prefetch. Those within {:.1f}%\n"
      "are equals: less memory first, then fewer options, which are in addition to the run's own\n"
      "{}\nthe others\n{}\nsearched: {}, {} fit; "
      "batch, precision and all else as given\n{}{}\n{}\n",
      format_bytes(search.allowed), 100 * kSameTime, table.text(), losers.text(),
      counted(std::ssize(search.rows), "configuration"), answer.fitting, space,
      search.in_stages
          ? wrapped(fmt::format("  in stages, so not every combination: strategy, units and recomputation; "
                                "then offload for the {0} best; then prefetch for the {0} best\n",
                                kKept),
                    2, kFitWidth)
          : "",
      on_lines(command_of(search, options)));
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
