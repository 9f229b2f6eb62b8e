#pragma once
// How long a step will take: the schedule's operations at a cluster's prices, played in time. docs/foresight.md
// explains the method and what it cannot know.

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tessera/config/options.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/simulate/cluster.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera {

struct Prediction {
  double step_seconds = 0;
  double uncertainty = 0;  ///< relative, of step_seconds: that of its prices, weighted by their share
  double tokens_per_second = 0;
  double mfu = 0;     ///< of the cluster's peak in the type of compute; NaN if the cluster has none
  std::string limit;  ///< what takes most of the step: compute, memory bandwidth, link, host
  Timeline timeline;
  std::array<double, kTimeCategories> class_uncertainty{};  ///< relative, by category of operation
};

/// Returns the options of `ranks` ranks on the cluster's machine: its device, and its memory and ranks per node where
/// they are left open. UsageError if they name another device.
Options on_cluster(Options options, const Cluster& cluster, std::int64_t ranks);

/// Predicts a step of a schedule with its plan. UsageError if the cluster lacks a price that the step needs.
Prediction predict(const StepSchedule& schedule, const MemoryPlan& plan, const Options& options,
                   const Cluster& cluster);

/// Returns the seconds for which compute waits for collectives and copies.
double exposed_seconds(const Prediction& prediction);

/// Returns a sentence where a step copies to or from its host, and the cluster's prices of that are not of a machine
/// with this processor; empty otherwise.
std::string remark_on_host(const Cluster& cluster, const StepSchedule& schedule, const std::string& processor);

/// Returns the prediction as `plan` writes it (docs/manual/schedule_json.md).
nlohmann::ordered_json prediction_json(const Prediction& prediction);

}  // namespace tessera
