// Says in words who waits for whom, and what became of each rank.

#include <fmt/ranges.h>
#include <string.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "flight/waits.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

namespace {

constexpr std::size_t kNamed = 8;          ///< ranks that a sentence names
constexpr std::size_t kEachHasALine = 16;  ///< of more ranks, those that are alike share one

/// Names ranks: "ranks 0, 3 and 12 more". `named`: the first of `count`.
std::string shown_ranks(const std::vector<std::int64_t>& named, std::int64_t count) {
  const std::int64_t more = count - std::ssize(named);
  return fmt::format("{} {}{}", count == 1 ? "rank" : "ranks", fmt::join(named, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string shown_ranks(const Ranks& ranks) {
  std::vector<std::int64_t> named;
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) named.push_back(ranks[i]->header.rank);
  return shown_ranks(named, std::ssize(ranks));
}

/// Names the ranks whose files are not here; empty if there are none. A damaged file may tell of any number of ranks.
std::string unseen_ranks(const FlightSurvey& survey) {
  const std::int64_t world = survey.ranks[0].header.world;
  std::vector<std::int64_t> named;
  auto seen = survey.ranks.begin();
  for (std::int64_t rank = 0; rank < world && named.size() < kNamed; ++rank) {
    if (seen != survey.ranks.end() && seen->header.rank == rank) {
      ++seen;
    } else {
      named.push_back(rank);
    }
  }
  return named.empty() ? "" : shown_ranks(named, world - std::ssize(survey.ranks));
}

std::string signal_name(std::uint32_t number) {
  const char* const name = ::strsignal(static_cast<int>(number));  // NOLINT(concurrency-mt-unsafe): the name is copied
  return fmt::format("signal {}, {}", number, shown(name != nullptr ? name : "unknown"));
}

/// Says how the rank's process is, as a clause: "is stopped (SIGSTOP)".
std::string condition(const RankFlight& rank) {
  const FlightHeader& h = rank.header;
  const std::string stopped =
      h.seen_stopped > 0 && rank.life != RankLife::stopped
          ? fmt::format("was stopped (SIGSTOP) when rank {} gave up waiting, and then ended", h.seen_stopped - 1)
          : "";
  switch (rank.life) {
    case RankLife::running:
      return "runs";
    case RankLife::finished:
      return "has finished";
    case RankLife::stopped:
      return "is stopped (SIGSTOP)";
    case RankLife::failed:
      if (!stopped.empty()) return stopped;
      return fmt::format("{} ({})", h.end == FlightEnd::told ? "ended because another rank failed" : "failed",
                         shown({h.message.data(), ::strnlen(h.message.data(), h.message.size())}, 300));
    case RankLife::gone:
    case RankLife::silent: {
      if (!stopped.empty()) return stopped;
      const char* const gone = rank.life == RankLife::gone ? "is gone" : "is silent";
      if (was_told_to_end(rank)) return fmt::format("{}: it was told to end ({})", gone, signal_name(h.signal));
      if (h.signal != 0) return fmt::format("{}: it died of {}", gone, signal_name(h.signal));
      return rank.life == RankLife::gone ? "is gone: it was killed (SIGKILL), because it left no word"
                                         : "is silent: its machine is gone, or it was killed or stopped (SIGSTOP)";
    }
  }
  return "";
}

/// Says what the rank does, or did last: "step 12, in gather h.3 for 8.1 s".
std::string activity(const RankFlight& rank) {
  const FlightHeader& h = rank.header;
  std::string text = fmt::format("step {}", h.step);
  const FlightOperationSeen* const current = rank.current();
  if (h.phase != FlightPhase::step && h.phase != FlightPhase::start)
    text += fmt::format(", {} for {}", kFlightPhases[static_cast<std::size_t>(h.phase)],
                        format_seconds(rank.seconds_run_since(h.phase_since)));
  if (current == nullptr) return text + ", before its first operation";
  if (!current->is_under_way())
    return text + fmt::format(", did {} last, {} before", current->name,
                              format_seconds(rank.seconds_run_since(current->record.end)));
  const char* const verb = current->work == FlightWork::collective ? "waits in"
                           : current->work == FlightWork::data     ? "waits for data in"
                                                                   : "in";
  return text + fmt::format(", {} {} for {}", verb, current->name,
                            format_seconds(rank.seconds_run_since(current->record.begin)));
}

/// Writes a sentence for each of the first ranks.
template <class F>
std::string sentences(const Ranks& ranks, F&& about) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    text += fmt::format("rank {} on {} {}\n", ranks[i]->header.rank, ranks[i]->host(), about(*ranks[i]));
  if (ranks.size() > kNamed) text += fmt::format("and {} more\n", ranks.size() - kNamed);
  return text;
}

std::string plain(const RankFlight& rank) { return fmt::format("{}; {}", condition(rank), activity(rank)); }

/// Returns those that were killed first: a rank whose heartbeats went on was ended later, by the launcher.
Ranks first_to_go(Ranks broken) {
  std::int64_t first = INT64_MAX;
  for (const RankFlight* rank : broken) first = std::min(first, rank->header.heartbeat_unix);
  std::erase_if(broken, [&](const RankFlight* rank) {
    return static_cast<double>(rank->header.heartbeat_unix) > static_cast<double>(first) + 6e8;
  });
  return broken;
}

std::string missing_report(const Wait& wait) {
  Ranks named = wait.missing;
  if (std::ranges::any_of(named, [](const RankFlight* rank) { return is_broken(*rank); }))
    std::erase_if(named, [](const RankFlight* rank) { return !is_broken(*rank); });
  return sentences(named, [&](const RankFlight& rank) {
    return fmt::format("never arrived in {}, where {} for {}. It {}", wait.where,
                       shown_ranks(wait.waiting) + (wait.waiting.size() == 1 ? " waits" : " wait"),
                       format_seconds(wait.seconds), plain(rank));
  });
}

std::string rank_lines(const FlightSurvey& survey) {
  std::map<std::string, Ranks> alike;
  std::vector<std::string> order;
  for (const RankFlight& rank : survey.ranks) {
    const auto* const current = rank.current();
    std::string key = fmt::format("{}", rank.header.rank);
    if (survey.ranks.size() > kEachHasALine)
      key = fmt::format("{} {} {} {}", condition(rank), rank.header.step, current != nullptr ? current->name : "",
                        current != nullptr && current->is_under_way());
    if (alike[key].empty()) order.push_back(key);
    alike[key].push_back(&rank);
  }
  std::string text;
  for (const std::string& key : order) {
    const RankFlight& first = *alike[key][0];
    text +=
        fmt::format("rank {:<5} {}, process {}: {}\n", first.header.rank, first.host(), first.header.pid, plain(first));
    if (const std::size_t more = alike[key].size() - 1; more > 0)
      text +=
          fmt::format("           and so {} like it\n", more == 1 ? "is 1 rank" : fmt::format("are {} ranks", more));
  }
  return text;
}

}  // namespace

std::string flight_verdict(const FlightSurvey& survey) {
  if (const auto wait = longest_wait(survey, true)) return missing_report(*wait);
  if (const Ranks broken = those(survey, is_broken); !broken.empty()) return sentences(first_to_go(broken), plain);
  const auto failed = [](const RankFlight& rank) { return rank.header.end == FlightEnd::failed; };
  if (const Ranks first = those(survey, failed); !first.empty()) return sentences(first, plain);
  if (const auto wait = longest_wait_after_a_step(survey)) return missing_report(*wait);
  const std::string unseen = unseen_ranks(survey);
  std::string text;
  if (const auto wait = longest_wait(survey, false)) {
    text = fmt::format("{} arrived {} ago in {}, which is not done: {}\n", shown_ranks(wait->waiting),
                       format_seconds(wait->seconds), wait->where,
                       unseen.empty() ? "the link is slow, or a message was lost"
                                      : fmt::format("what {} did is not known here", unseen));
    if (unseen.empty()) return text;
  }
  text += sentences(those(survey, [](const RankFlight& rank) { return rank.header.end == FlightEnd::gave_up; }), plain);
  if (!text.empty()) return text;
  return sentences(those(survey,
                         [](const RankFlight& rank) {
                           const FlightOperationSeen* const current = rank.current();
                           return current != nullptr && current->is_under_way() && rank.life == RankLife::running &&
                                  rank.seconds_run_since(current->record.begin) > kPatience;
                         }),
                   activity);
}

std::string flight_report(const FlightSurvey& survey) {
  std::int64_t started = INT64_MAX;
  for (const RankFlight& rank : survey.ranks) started = std::min(started, rank.header.started_unix);
  std::string text =
      fmt::format("flight     {} of {}, started {}\n", survey.ranks.size(),
                  counted(survey.ranks[0].header.world, "rank"), format_utc(static_cast<double>(started) / 1e9));
  for (const std::string& wrong : survey.refused) text += "left out   " + printable(wrong) + "\n";
  if (const std::string unseen = unseen_ranks(survey); !unseen.empty())
    text += fmt::format("unseen     {} left no file here\n", unseen);
  text += rank_lines(survey);
  const std::string verdict = flight_verdict(survey);
  return text + (verdict.empty() ? "no rank has waited for another in an operation for a second\n" : verdict);
}

}  // namespace tessera
