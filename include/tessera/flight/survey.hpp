#pragma once
// Reads the flight files of a run's ranks, also while it goes on and after its processes were killed.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/flight/record.hpp"

namespace tessera {

/// How a rank's process is, as far as can be known here.
enum class RankLife : std::uint8_t {
  running,
  stopped,  ///< by SIGSTOP or a debugger
  silent,   ///< on another machine, without a heartbeat for seconds
  gone,     ///< without saying how it ended
  failed,   ///< with a message
  finished
};

/// An operation of a rank.
struct FlightOperationSeen {
  FlightRecord record;  ///< number 0: none
  std::string name;     ///< safe for a terminal
  FlightWork work = FlightWork::compute;

  bool is_under_way() const { return record.number > 0 && record.end == 0; }
};

struct RankFlight {
  FlightHeader header;
  RankLife life = RankLife::running;
  std::array<FlightOperationSeen, kFlightRings> last;  ///< of each stream
  std::int64_t now = 0;  ///< on the rank's steady clock: the present, or the last moment at which it lived

  /// Returns the operation that the rank is in: a collective before others, the oldest before newer ones, a segment if
  /// there is nothing else. If it is in none, the one that it did last. Null if there is none at all.
  const FlightOperationSeen* current() const;
  /// Returns how long the rank has run since a time, in seconds: without the time in which it was last stopped.
  double seconds_run_since(std::int64_t time) const;
  std::string host() const;
};

/// Reads one file. IoError if it is not a flight file: too short, of another version, or with impossible numbers.
RankFlight read_flight(const std::filesystem::path& file);

struct FlightSurvey {
  std::vector<RankFlight> ranks;     ///< of the latest start, by rank
  std::vector<std::string> refused;  ///< why files were left out
};

/// Reads the files rank-N of the folders; a rank that is in two of them counts once, with its later heartbeat. IoError
/// if no file can be read.
FlightSurvey survey(const std::vector<std::filesystem::path>& folders);
/// Reads those of RUN/flight, and those of this node if RUN/flight/node-local names their folder.
FlightSurvey survey_run(const std::filesystem::path& run);

/// Notes in the files of ranks that are stopped that `by` saw it, because nothing else tells it once they are killed.
void note_stopped(const std::filesystem::path& folder, const FlightSurvey& survey, std::int64_t by);

/// Returns the report: lines about every rank that is not as the others are, and at the end who holds the others up.
std::string flight_report(const FlightSurvey& survey);
/// Returns the end of it alone: sentences that name ranks; empty if no rank waits longer than a second.
std::string flight_verdict(const FlightSurvey& survey);

}  // namespace tessera
