#include "tessera/training/flight.hpp"

#include <cstdio>
#include <cstdlib>

#include "tessera/base/error.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/flight/survey.hpp"

namespace tessera {

namespace {

FlightEnd end_of(const CommunicationError& error) {
  return dynamic_cast<const TimeoutError*>(&error) != nullptr ? FlightEnd::gave_up : FlightEnd::failed;
}

}  // namespace

TrainingFlight::TrainingFlight(RankContext& context, const std::filesystem::path& run, const std::string& start,
                               const StepSchedule& schedule, double timeout)
    : context_(context) {
  const Log own(0, 1);  // any rank may have something to say
  try {
    recorder_.emplace(flight_folder(run, start, context.rank()), context.rank(), context.size(), start, schedule.hash(),
                      flight_operations(schedule));
    monitor_.emplace(*recorder_, FlightWatch{timeout, [own](const std::string& line) { own.warn(line); },
                                             [this](const std::string& why) { end_the_job(why); }});
  } catch (const IoError& error) {
    own.warn(fmt::format("rank {} has no flight recorder: {}", context.rank(), error.what()));
  }
  context.notice().set_last_words([this](const CommunicationError& why) { report(why.what(), end_of(why)); });
}

TrainingFlight::~TrainingFlight() { context_.notice().set_last_words({}); }

void TrainingFlight::finished() {
  if (!recorder_) return;
  recorder_->look();
  recorder_->enter(FlightPhase::end);
  recorder_->finished();
}

void TrainingFlight::failed() {
  const auto note = [this](const char* why, FlightEnd how) {
    if (recorder_) recorder_->failed(why, how);
  };
  try {
    throw;
  } catch (const PeerError& error) {
    note(error.what(), FlightEnd::told);
  } catch (const CommunicationError& error) {
    // Of several ranks that gave up waiting the first one of each node reports.
    context_.notice().raise({context_.rank(), error.code(), error.what()});
    if (!context_.notice().raised() || context_.notice().failure().rank == context_.rank())
      return report(error.what(), end_of(error));
    note(error.what(), end_of(error));
  } catch (const std::exception& error) {
    note(error.what(), FlightEnd::failed);
  }
}

/// Prints who waits for whom, before the last line says why the job ends, and notes that line.
void TrainingFlight::report(const std::string& why, FlightEnd how) {
  if (!recorder_) return;
  try {
    recorder_->look();
    const FlightSurvey seen = survey({recorder_->folder()});
    note_stopped(recorder_->folder(), seen, recorder_->rank());
    std::fputs(printable(flight_report(seen)).c_str(), stderr);
  } catch (const IoError&) {
    // The error itself is told anyway.
  }
  recorder_->failed(why, how);
}

/// Ends the process from the monitor's thread, because the main one waits for data that do not come.
void TrainingFlight::end_the_job(const std::string& why) {
  if (!context_.notice().raise({context_.rank(), ExitCode::communication, why})) return;  // another one ends it
  report(why, FlightEnd::failed);
  Log(static_cast<int>(context_.rank()), static_cast<int>(context_.size())).error(why);
  static_cast<void>(std::fflush(stderr));
  std::_Exit(static_cast<int>(ExitCode::communication));
}

}  // namespace tessera
