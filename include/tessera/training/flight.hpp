#pragma once
// The flight recorder of a training rank, with its monitor, and the report if the run ends because a rank did not come.

#include <filesystem>
#include <optional>
#include <string>

#include "tessera/comm/rank_context.hpp"
#include "tessera/flight/monitor.hpp"
#include "tessera/flight/recorder.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

class TrainingFlight {
 public:
  /// Starts recording into the flight folder of `run`. Where that is refused (a full disk), it says so and the run goes
  /// on without. `start` names this start of the run on all ranks; `timeout`: run.timeout.
  TrainingFlight(RankContext& context, const std::filesystem::path& run, const std::string& start,
                 const StepSchedule& schedule, double timeout);
  ~TrainingFlight();
  TrainingFlight(const TrainingFlight&) = delete;
  TrainingFlight& operator=(const TrainingFlight&) = delete;

  /// Returns the recorder; null if there is none.
  FlightRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }
  void finished();
  /// Notes the failure that is being handled; only inside a catch. If peers were waited for in vain, prints the report.
  void failed();

 private:
  void report(const std::string& why, FlightEnd how);
  void end_the_job(const std::string& why);

  RankContext& context_;
  std::optional<FlightRecorder> recorder_;
  FaultMarks faults_;
  std::optional<FlightMonitor> monitor_;
};

}  // namespace tessera
