#pragma once
// A step of several micro-steps that ranks wish to stop in: who wished what before which micro-step.

#include <functional>
#include <vector>

#include "plan_run.hpp"
#include "training/session_case.hpp"

namespace tessera::testing {

/// The wish of a rank, by its number, the step (from 1), and how many micro-steps of it were begun.
using WishOf = std::function<StepWish(std::int64_t rank, std::int64_t step, std::int64_t begun)>;

/// The outcome of one rank's steps, and the weights at the end, which all ranks fill.
struct GivenUpOutcome {
  std::vector<std::int64_t> requests;  ///< of each finished step
  bool given_up = false;               ///< the last one
  std::int64_t steps = 0;              ///< done
  std::int64_t asked = 0;              ///< micro-steps of the last step that rank 0 was asked before
  IndexedVector<TensorId, std::vector<float>> weights;
};

/// Trains until a step is given up or options.train.steps are done.
inline GivenUpOutcome train_with_wishes(const Options& options, const Architecture& architecture, std::int64_t world,
                                        const WishOf& wish) {
  std::mutex mutex;
  const PlannedRun planned = plan_run(options, architecture, world, world);
  GivenUpOutcome outcome;
  outcome.weights = empty_tensors(planned.schedule.model);
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    const bool reports = context.rank() == 0;
    session.ask([&](std::int64_t begun) {
      if (reports) outcome.asked = begun;
      return wish(context.rank(), session.step() + 1, begun);
    });
    while (session.step() < session.steps()) {
      const StepResult result = session.train_step();
      if (reports) outcome.given_up = result.given_up;
      if (result.given_up) break;
      if (reports) outcome.requests.push_back(result.stop_requests);
    }
    if (reports) outcome.steps = session.step();
    const std::lock_guard lock(mutex);
    collect_weights(planned.schedule, session.resources(), outcome.weights);
  });
  return outcome;
}

}  // namespace tessera::testing
