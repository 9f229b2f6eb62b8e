#include <catch2/catch.hpp>
#include <thread>

#include "plan_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/step_trace.hpp"
#include "tessera/model/architecture.hpp"
#include "tessera/schedule/planned_run.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

PlannedRun planned() {
  Options options;
  options.train.accumulation = 2;
  return plan_run(options, preset("nano"), 2, 2);
}

TraceSpan span(OperationId operation) {
  TraceSpan span;
  span.operation = operation;
  return span;
}

}  // namespace

TEST_CASE("spans of the wanted steps are kept with step and play, those of others are not") {
  const PlannedRun run = planned();
  const StepSchedule& s = run.schedule;
  StepTrace trace(s, 3, 4);
  CHECK((!trace.wants(2) && trace.wants(3) && trace.wants(4) && !trace.wants(5)));
  const SegmentId evaluation = s.evaluation.at(0).segment;
  for (std::int64_t step = 1; step <= 6; ++step) {
    trace.begin_step(step);
    for (const Play& play : s.step) {
      trace.begin_play(play.segment);
      for (const OperationId id : s.segments[play.segment].operations()) trace.add(span(id));
    }
    trace.begin_play(evaluation);
    trace.add(span(s.segments[evaluation].first));
    trace.begin_play(s.step.front().segment);  // played again, outside of the step
    trace.add(span(s.segments[s.step.front().segment].first));
  }
  std::size_t i = 0;
  for (const std::int64_t step : {3, 4}) {
    for (std::size_t play = 0; play < s.step.size(); ++play) {
      for (const OperationId id : s.segments[s.step[play].segment].operations()) {
        const TraceSpan& kept = trace.spans()[i++];
        REQUIRE((kept.step == step && kept.play == static_cast<std::int32_t>(play) && kept.operation == id));
        REQUIRE_FALSE(kept.is_wait());
      }
    }
  }
  CHECK(i == trace.spans().size());
}

TEST_CASE("threads add spans at once, up to the room that a step may need") {
  const PlannedRun run = planned();
  const StepSchedule& s = run.schedule;
  StepTrace trace(s, 1, 1);
  trace.begin_step(1);
  trace.begin_play(s.step.front().segment);
  const std::int64_t room = StepTrace::most_spans(s);
  std::int64_t operations = 0;
  for (const Play& play : s.step) operations += s.segments[play.segment].count;
  CHECK(room >= 2 * operations);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = t; i < room; i += 2) trace.add(span(OperationId(0)));
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(trace.spans().size() == static_cast<std::size_t>(room));
  CHECK_THROWS_AS(trace.add(span(OperationId(0))), InternalError);
}

TEST_CASE("a wait names what was waited for, or is the segment's end") {
  TraceSpan wait = span(OperationId(4));
  CHECK_FALSE(wait.is_wait());
  wait.awaited = OperationId(2);
  CHECK(wait.is_wait());
  CHECK(TraceSpan{}.is_wait());
}
