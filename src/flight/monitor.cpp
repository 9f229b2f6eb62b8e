#include "tessera/flight/monitor.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/base/waited_time.hpp"
#include "tessera/flight/survey.hpp"

namespace tessera {

namespace {

constexpr auto kBeat = std::chrono::milliseconds(250);
constexpr double kLate = 5.0;  ///< seconds
constexpr double kTimesUsual = 20.0;
constexpr double kAfterPeers = 1.0;  ///< seconds: ranks that wait in a collective meanwhile report first

/// Says what is late on a stream. With the files of other ranks, also who is missing there; empty if another rank says
/// so.
std::string late_text(const FlightRecorder& recorder, int stream, const FlightRecord& record, double seconds,
                      double usual) {
  const FlightOperation& operation = recorder.operation(record.operation);
  const std::string late =
      fmt::format("rank {} has been in {} of step {} for {}, which usually takes {}", recorder.rank(),
                  shown(operation.name.data()), record.step, format_seconds(seconds), format_seconds(usual));
  if (operation.work != FlightWork::collective && stream != kFlightSegments) return late;
  try {
    const FlightSurvey known = survey({recorder.folder()});
    // The first of those that wait in it speaks for all.
    for (const RankFlight& rank : known.ranks) {
      const FlightOperationSeen& its = rank.last[static_cast<std::size_t>(stream)];
      const bool waits = its.is_under_way() && its.record.number == record.number && rank.life == RankLife::running;
      if (waits && rank.header.rank < recorder.rank()) return {};
    }
    const std::string verdict = flight_verdict(known);
    return verdict.empty() ? late : late + "\n" + verdict.substr(0, verdict.size() - 1);
  } catch (const Error&) {
    return late;  // the others' files are on other nodes
  }
}

}  // namespace

FlightMonitor::FlightMonitor(FlightRecorder& recorder, FlightWatch watch)
    : recorder_(recorder),
      watch_(std::move(watch)),
      thread_(start_thread("flight", [this](const std::stop_token& over) { run(over); })) {}

void FlightMonitor::run(const std::stop_token& over) {
  WaitedTime watching;
  double before = 0;
  while (!ends_within(over, kBeat)) {
    const double now = watching.look(), passed = now - std::exchange(before, now);
    if (watching.left_out() > 0) recorder_.was_stopped(watching.left_out());
    recorder_.look();
    recorder_.beat();
    for (int stream = 0; stream < kFlightRings; ++stream) look(stream, passed);
  }
}

/// Returns whether a collective is under way whose own warning comes, if it is what makes a segment late.
bool FlightMonitor::is_told_by_others() const {
  for (int stream = 0; stream < kFlightSegments; ++stream) {
    const FlightRecord record = recorder_.last(stream);
    if (record.number == 0 || record.end != 0) continue;
    if (recorder_.operation(record.operation).work == FlightWork::collective &&
        recorder_.usual_seconds(record.operation) > 0)
      return true;
  }
  return false;
}

void FlightMonitor::look(int stream, double passed) {
  const FlightRecord record = recorder_.last(stream);
  Watched& watched = watched_[static_cast<std::size_t>(stream)];
  if (record.number == 0 || record.end != 0) return;
  if (std::exchange(watched.number, record.number) != record.number) watched = {record.number, 0, false};
  watched.seconds += passed;
  if (watched.seconds < std::min(kLate, watch_.timeout)) return;
  const FlightOperation& operation = recorder_.operation(record.operation);
  if (operation.work == FlightWork::data && watched.seconds > watch_.timeout + kAfterPeers)
    watch_.end_the_job(
        fmt::format("rank {} waited for data for more than {} s (run.timeout), in {} of step {}. Its disk "
                    "or its network does not answer.",
                    recorder_.rank(), watch_.timeout, shown(operation.name.data()), record.step));
  if (stream == kFlightSegments && is_told_by_others()) return;
  const double usual = recorder_.usual_seconds(record.operation);
  if (watched.warned || usual <= 0 || watched.seconds < std::max(kLate, kTimesUsual * usual)) return;
  watched.warned = true;
  if (const std::string text = late_text(recorder_, stream, record, watched.seconds, usual); !text.empty())
    watch_.warn(text);
}

}  // namespace tessera
