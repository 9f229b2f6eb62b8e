#pragma once
// The file in which a rank leaves what it does: a header, the table of its operations, and a ring of records for each
// of its streams. It is mapped and written in place, so that it can be read while the rank runs, and after SIGKILL.
// Numbers are those of the machine that wrote it (little-endian); postprocess/tessera_report/flight_file.py reads it
// too.

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr std::uint64_t kFlightMagic = 0x544847494C465354;  ///< "TSFLIGHT"
inline constexpr std::uint32_t kFlightVersion = 1;
inline constexpr int kFlightRings = 8;                    ///< one for each stream of a rank, and
inline constexpr int kFlightSegments = kFlightRings - 1;  ///< the last for segments, which a GPU's host submits whole
inline constexpr std::uint64_t kFlightRecords = 512;      ///< of each ring

/// The phase of a run that a rank is in, which its operations do not tell.
enum class FlightPhase : std::uint32_t { start, step, report, evaluation, sample, checkpoint, end };
inline constexpr std::array kFlightPhases{"start", "step", "report", "evaluation", "sample", "checkpoint", "end"};

/// How a rank ended, if it could say so. told: another rank failed; gave_up: it had waited for another one.
enum class FlightEnd : std::uint32_t { none, finished, failed, told, gave_up };

/// The kind of an operation: what a rank waits for in it.
enum class FlightWork : std::uint8_t { compute, collective, data, copy };
inline constexpr int kFlightWorks = 4;

/// A row of the table.
struct FlightOperation {
  std::array<char, 48> name{};  ///< "gather h.3", ended by a zero
  std::int64_t bytes = 0;       ///< sent, or copied to and from the host
  FlightWork work = FlightWork::compute;
  std::array<std::byte, 7> unused{};
};
static_assert(sizeof(FlightOperation) == 64);

/// One operation on one stream. Times are nanoseconds of the steady clock.
struct alignas(64) FlightRecord {
  std::uint64_t number = 0;  ///< of the operation on its stream, from 1 on; written last, and 0 until then
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< 0: under way
  std::int64_t step = 0;
  std::int64_t operation = 0;  ///< row of the table
};
static_assert(sizeof(FlightRecord) == 64);

/// Texts end with a zero. Times "unix" are nanoseconds since 1970.
struct FlightHeader {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::int32_t rank = 0, world = 0;
  std::int32_t pid = 0;
  std::int64_t pid_started = 0;  ///< as ProcessOwner::started
  std::int64_t operations = 0;   ///< rows of the table
  std::uint64_t schedule = 0;    ///< hash of the schedule
  std::int64_t started_unix = 0;
  std::array<char, 64> host{};
  std::array<char, 96> system{};  ///< as ProcessOwner::system
  std::array<char, 40> start{};   ///< names the start of the run: equal on all its ranks
  // From here on it changes while the rank runs.
  std::int64_t heartbeat = 0, heartbeat_unix = 0;  ///< the same moment on both clocks
  std::int64_t step = 0;
  std::int64_t phase_since = 0;
  FlightPhase phase = FlightPhase::start;
  std::uint32_t signal = 0;  ///< the first that the rank received; 0: none
  FlightEnd end = FlightEnd::none;
  std::uint32_t seen_stopped = 0;   ///< 1 + the rank that saw that this one was stopped (SIGSTOP); 0: none
  std::array<char, 512> message{};  ///< of a failure
  std::int64_t stopped_from = 0, stopped_until = 0;  ///< when the process itself was last stopped from outside
  std::array<std::byte, 192> unused{};
};
static_assert(sizeof(FlightHeader) == 1024 && offsetof(FlightHeader, heartbeat) == 256);

}  // namespace tessera
