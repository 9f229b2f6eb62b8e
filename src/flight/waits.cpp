#include "flight/waits.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace tessera {

namespace {

bool is_in_step(const FlightHeader& h) { return h.phase == FlightPhase::start || h.phase == FlightPhase::step; }

/// Returns whether `rank` has not done an operation that `other` has done, or has begun after it.
bool is_behind(const RankFlight& rank, const RankFlight& other) {
  for (std::size_t stream = 0; stream < kFlightRings; ++stream) {
    const FlightOperationSeen &mine = rank.last[stream], &theirs = other.last[stream];
    const bool is_same = mine.record.number == theirs.record.number;
    if (mine.record.number < theirs.record.number || (is_same && mine.is_under_way() && !theirs.is_under_way()))
      return true;
  }
  return false;
}

/// Returns the rank's wait, if it is in a collective. Every rank plays the same operations in the same order on each
/// stream, so the number of an operation on its stream says who has come how far.
std::optional<Wait> wait_of(const FlightSurvey& survey, const RankFlight& rank) {
  const FlightOperationSeen* const current = rank.current();
  if (current == nullptr || !current->is_under_way() || current->work != FlightWork::collective) return std::nullopt;
  Wait wait{fmt::format("{} of step {}", current->name, current->record.step),
            rank.seconds_run_since(current->record.begin),
            {},
            {}};
  const auto stream = static_cast<std::size_t>(current - rank.last.data());
  std::uint64_t least = current->record.number;
  for (const RankFlight& other : survey.ranks) least = std::min(least, other.last[stream].record.number);
  for (const RankFlight& other : survey.ranks) {
    const FlightRecord& last = other.last[stream].record;
    if (least < current->record.number && last.number == least) wait.missing.push_back(&other);
    if (last.number == current->record.number && last.end == 0) wait.waiting.push_back(&other);
  }
  return wait;
}

}  // namespace

std::optional<Wait> longest_wait(const FlightSurvey& survey, bool somebody_is_missing) {
  std::optional<Wait> longest;
  for (const RankFlight& rank : survey.ranks) {
    if (rank.life == RankLife::stopped) continue;
    auto wait = wait_of(survey, rank);
    if (!wait || wait->seconds < kPatience || wait->missing.empty() == somebody_is_missing) continue;
    if (!longest || wait->seconds > longest->seconds) longest = std::move(wait);
  }
  return longest;
}

std::optional<Wait> longest_wait_after_a_step(const FlightSurvey& survey) {
  std::optional<Wait> longest;
  for (const RankFlight& rank : survey.ranks) {
    const FlightHeader& h = rank.header;
    const double seconds = rank.seconds_run_since(h.phase_since);
    if (is_in_step(h) || h.phase == FlightPhase::end || seconds < kPatience || (longest && seconds <= longest->seconds))
      continue;
    if (const auto* const current = rank.current(); current != nullptr && current->is_under_way()) continue;
    const char* const phase = kFlightPhases[static_cast<std::size_t>(h.phase)];
    Wait wait{fmt::format("the {} of step {}", phase, h.step), seconds, {}, {}};
    wait.waiting = those(
        survey, [&](const RankFlight& other) { return other.header.step == h.step && other.header.phase == h.phase; });
    wait.missing = those(survey, [&](const RankFlight& other) {
      const FlightHeader& o = other.header;
      return o.step < h.step || (o.step == h.step && is_in_step(o) && is_behind(other, rank));
    });
    if (!wait.missing.empty()) longest = std::move(wait);
  }
  return longest;
}

bool was_told_to_end(const RankFlight& rank) {
  const std::uint32_t signal = rank.header.signal;
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGUSR1 || signal == SIGXCPU;
}

bool is_broken(const RankFlight& rank) {
  if (rank.header.seen_stopped > 0 || rank.life == RankLife::stopped) return true;
  return (rank.life == RankLife::gone || rank.life == RankLife::silent) && !was_told_to_end(rank);
}

}  // namespace tessera
