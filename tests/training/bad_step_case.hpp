#pragma once
// A step that is not finite, because a weight is not a number for as long as it lasts.

#include <cmath>

#include "plan_run.hpp"
#include "training/session_case.hpp"

namespace tessera::testing {

struct BadStepOutcome {
  bool finite = true, skipped = false;
  std::string where;           ///< the first bad number, on rank 0
  std::vector<double> losses;  ///< of the steps around it
  std::int64_t skipped_steps = 0;
};

/// Trains two steps, a bad one and two more on `ranks` ranks. The second number of unit `unit`'s last slice is bad.
inline BadStepOutcome train_around_bad_step(Options options, std::int64_t ranks, const std::string& unit,
                                            bool locates) {
  options.train.steps = 5;
  options.run.on_bad_step = OnError::skip;
  options.run.locate_nan = locates;
  const PlannedRun planned = plan_run(options, small_gpt2(), ranks, ranks);
  BadStepOutcome outcome;
  run_ranks(ranks, ranks, [&](RankContext& context) {
    const Dataset data = open_dataset(options, small_gpt2().vocab, planned.schedule.model.sequence);
    TrainingSession session(context, options, planned, data, {});
    std::vector<double> losses;
    for (int step = 0; step < 2; ++step) losses.push_back(session.train_step().loss);
    session.player().finish_step();
    float* spoiled = nullptr;
    for (const UnitId id : planned.schedule.layout.units.ids()) {
      if (planned.schedule.unit(id).name != unit || context.rank() != ranks - 1) continue;
      spoiled = state_slice(planned.schedule, session.resources(), id).master() + 1;
    }
    Device& device = *session.resources().device;
    float good = 0;
    const float bad = std::nanf("");
    if (spoiled != nullptr) device.copy(&good, spoiled, sizeof good), device.copy(spoiled, &bad, sizeof bad);
    const StepResult result = session.train_step();
    const std::string where = locates ? session.locate_nan() : "";
    if (spoiled != nullptr) device.copy(spoiled, &good, sizeof good);
    session.player().play(planned.schedule.prologue, PlayPurpose::aside);  // makes again what was of the bad number
    for (int step = 0; step < 2; ++step) losses.push_back(session.train_step().loss);
    if (context.rank() != 0) return;
    outcome = {result.finite, result.skipped, where, losses, session.optimizer().skipped_steps()};
  });
  return outcome;
}

}  // namespace tessera::testing
