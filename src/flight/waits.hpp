#pragma once
// Who waits for whom, and who went wrong, by the flights of the ranks.

#include <optional>
#include <string>
#include <vector>

#include "tessera/flight/survey.hpp"

namespace tessera {

constexpr double kPatience = 1.0;  ///< seconds: shorter waits are part of every run

using Ranks = std::vector<const RankFlight*>;

/// Who waits where, and who has not come there.
struct Wait {
  std::string where;  ///< "gather h.3 of step 12"
  double seconds = 0;
  Ranks waiting, missing;
};

/// Returns the longest wait in a collective, with somebody missing or with nobody.
std::optional<Wait> longest_wait(const FlightSurvey& survey, bool somebody_is_missing);
/// Returns the longest wait outside of operations, as in a checkpoint, for ranks that are still in the step before it.
std::optional<Wait> longest_wait_after_a_step(const FlightSurvey& survey);

/// Returns whether a signal came that asks a process to end, from a user or a launcher.
bool was_told_to_end(const RankFlight& rank);
/// Returns whether the rank itself went wrong, and not because of another one.
bool is_broken(const RankFlight& rank);

template <class F>
Ranks those(const FlightSurvey& survey, F&& wanted) {
  Ranks found;
  for (const RankFlight& rank : survey.ranks) {
    if (wanted(rank)) found.push_back(&rank);
  }
  return found;
}

}  // namespace tessera
