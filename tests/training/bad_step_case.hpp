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
  std::size_t spans = 0;  ///< of run.trace
};

/// Trains two steps, a bad one and two more on `ranks` ranks. The second number of unit `unit`'s last slice is bad, and
/// if it `passes`, good again before the step is played once more.
inline BadStepOutcome train_around_bad_step(Options options, std::int64_t ranks, const std::string& unit, bool locates,
                                            bool passes = false) {
  options.train.steps = 5;
  options.run.on_bad_step = OnError::skip;
  options.run.locate_nan = locates;
  const PlannedRun planned = plan_run(options, small_gpt2(), ranks, ranks);
  BadStepOutcome outcome;
  MachineShape machine;
  machine.poison = passes;  // in a step that must not use what is released, and was made good again
  with_sessions(options, planned, machine, [&](RankContext& context, TrainingSession& session) {
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
    const auto restore = [&] {
      if (spoiled != nullptr) device.copy(spoiled, &good, sizeof good);
      session.player().play(planned.schedule.prologue, PlayPurpose::aside);  // makes again what was of the bad number
    };
    if (passes) restore();
    const std::string where = locates ? session.locate_nan() : "";
    if (!passes) restore();
    for (int step = 0; step < 2; ++step) losses.push_back(session.train_step().loss);
    if (context.rank() != 0) return;
    outcome = {result.finite,
               result.skipped,
               where,
               losses,
               session.optimizer().skipped_steps(),
               session.trace() == nullptr ? 0 : session.trace()->spans().size()};
  });
  return outcome;
}

}  // namespace tessera::testing
