#pragma once
// A run whose prices follow from rates, and its prediction.

#include "simulate/simulated_run.hpp"
#include "temporary_folder.hpp"
#include "tessera/record/prediction.hpp"

namespace tessera::testing {

/// A run of two ranks on a machine whose prices follow from rates.
struct PredictedRun {
  explicit PredictedRun(const Rates& rates = {}, DeviceKind device = DeviceKind::cpu) {
    Cluster machine = machine_of(rates);
    machine.device = device;
    options.plan.cluster = folder.write("machine.ini", cluster_text(machine, "")).string();
    options.run.queues = QueueMode::serial;
    options.run.threads = 1;
  }
  RunPrediction prediction() const { return *predict_run(run, options); }

  TemporaryFolder folder;
  Options options;
  PlannedRun run = planned("nano", Strategy::zero3, 2);
};

}  // namespace tessera::testing
