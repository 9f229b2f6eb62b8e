// Queues in time: what holds for every schedule, and small cases worked out by hand.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "schedule/all_policies.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/simulate/timeline.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Some time for each operation, none twice.
double seconds_of(OperationId id) { return 1e-3 * (1 + static_cast<double>(id.number() * 7919 % 97)); }

StepSchedule zero3(std::int64_t prefetch, std::int64_t layers = 4) {
  SchedulePolicy policy;
  policy.strategy = Strategy::zero3;
  policy.prefetch.forward = policy.prefetch.backward = prefetch;
  ToyShape shape;
  shape.layers = layers;
  return build_schedule(toy_model(shape), grid_for(Strategy::zero3, 2, 2, 0), policy);
}

QueueRules parallel(bool runs_ahead = false) {
  QueueRules rules;
  rules.queues = QueueMode::parallel;
  rules.runs_ahead = rules.replays = runs_ahead;
  return rules;
}

double sum_of(
    const StepSchedule& s,
    const std::function<bool(const Operation&)>& counts = [](const Operation&) { return true; }) {
  double sum = 0;
  for (const Play& play : s.step) {
    for (const OperationId id : s.segments[play.segment].operations()) {
      if (counts(s.operation(id))) sum += seconds_of(id);
    }
  }
  return sum;
}

bool is_communication(const Operation& op) {
  return op.queue == Queue::gather || op.queue == Queue::reduce || op.queue == Queue::replica;
}

/// Checks what no machine can do otherwise: a stream does one thing at a time, and nothing starts before what it needs.
void check_order(const StepSchedule& s, const Timeline& timeline) {
  std::map<int, double> free;
  IndexedVector<OperationId, double> ends(s.operations.size());
  double play_begin = 0, latest = 0;
  std::int32_t play = 0;
  for (const TimelineSpan& span : timeline.spans) {
    if (span.play != play) play = span.play, play_begin = latest;
    REQUIRE(span.begin >= play_begin - 1e-12);  // all queues join at a border
    REQUIRE(span.begin >= free[span.stream] - 1e-12);
    for (const OperationId other : waits_of(s, span.operation)) REQUIRE(span.begin >= ends[other] - 1e-12);
    free[span.stream] = ends[span.operation] = span.end;
    latest = std::max(latest, span.end);
  }
  REQUIRE(timeline.seconds >= latest - 1e-12);
}

}  // namespace

TEST_CASE("A timeline keeps the order of every schedule, and accounts for the whole step") {
  int draw = 0;
  for_each_policy([&](const PolicyCase& c) {
    if (++draw % 7 != 0) return;
    const auto made = c.schedule_of();
    if (!made) return;
    const StepSchedule& s = *made;
    INFO(c.describe());
    for (const bool runs_ahead : {false, true}) {
      QueueRules rules = parallel(runs_ahead);
      rules.segment = 2e-3, rules.step = 5e-3, rules.issue = 1e-4;
      const Timeline overlapped = play_in_time(s, seconds_of, rules);
      check_order(s, overlapped);
      const double booked = std::accumulate(overlapped.time.begin(), overlapped.time.end(), overlapped.host);
      REQUIRE(booked == Approx(overlapped.seconds));
      rules.queues = QueueMode::serial, rules.issue = 0;
      const Timeline serial = play_in_time(s, seconds_of, rules);
      REQUIRE(serial.seconds == Approx(sum_of(s) + 5e-3 + 2e-3 * static_cast<double>(s.step.size())));
      rules.queues = QueueMode::parallel;
      const Timeline free_of_charge = play_in_time(s, seconds_of, rules);
      REQUIRE(free_of_charge.seconds <= serial.seconds + 1e-9);
      REQUIRE(free_of_charge.seconds >= sum_of(s, [&](const Operation& op) {
                return !is_communication(op) && (!copies_in_steps(s) || op.queue == Queue::compute);
              }));
    }
  });
}

TEST_CASE("Prefetch hides gathers, and without it they are exposed") {
  const StepSchedule with = zero3(1), without = zero3(0);
  const auto equal = [](OperationId) { return 1.0; };
  const auto exposed = [&](const StepSchedule& s) {
    return play_in_time(s, equal, parallel()).time[static_cast<std::size_t>(TimeCategory::exposed_gather)];
  };
  CHECK(exposed(with) < exposed(without));
  QueueRules serial = parallel();
  serial.queues = QueueMode::serial;
  CHECK(play_in_time(with, equal, parallel()).seconds < play_in_time(with, equal, serial).seconds);
}

TEST_CASE("A GPU's forward goes on while its host updates the units that are used later") {
  SchedulePolicy policy;
  policy.offload = Offload::optimizer;
  const StepSchedule s = build_schedule(toy_model({.layers = 4}), grid_for(Strategy::zero3, 1, 1, 0), policy);
  const auto seconds = [&](OperationId id) {
    const OperationKind kind = s.operation(id).kind;
    return kind == OperationKind::forward || kind == OperationKind::update ? 1.0 : 0.0;
  };
  // Updates of wte, wpe and h.0, then the two parts of four blocks, which the other updates and the embedding hide.
  const Timeline timeline = play_in_time(s, seconds, parallel(true));
  CHECK(timeline.seconds == Approx(3 + 8));
  CHECK(timeline.time[static_cast<std::size_t>(TimeCategory::exposed_other)] == Approx(2));
  CHECK(timeline.host == Approx(0));
  CHECK(sum_of(s, [](const Operation& op) { return op.queue == Queue::host; }) > 0);
}

TEST_CASE("A GPU's host updates more slowly while copies run, and only then") {
  SchedulePolicy policy;
  policy.offload = Offload::optimizer;
  const StepSchedule s = build_schedule(toy_model({.layers = 4}), grid_for(Strategy::zero3, 1, 1, 0), policy);
  QueueRules rules = parallel(true);
  rules.host_under_copies = 2;
  const auto host = [&](double copy) {
    const auto seconds = [&](OperationId id) {
      if (copied_bytes(s, s.operation(id)) > 0) return copy;
      return s.operation(id).kind == OperationKind::update ? 1.0 : 0.0;
    };
    double updates = 0, copies = 0;
    for (const TimelineSpan& span : play_in_time(s, seconds, rules).spans) {
      if (s.operation(span.operation).queue == Queue::host) updates += span.end - span.begin;
      if (copied_bytes(s, s.operation(span.operation)) > 0) copies += span.end - span.begin;
    }
    return std::pair(updates, copies);
  };
  const auto [alone, none] = host(0);
  const auto [slowed, copies] = host(0.25);
  CHECK(none == Approx(0));
  CHECK(slowed > alone + 0.1);
  CHECK(slowed <= alone + copies / 2 + 1e-9);  // a second of copies takes half a second's work from the host
}

TEST_CASE("On cores the thread that computes hands over, a GPU's host runs ahead") {
  // Free gathers but one: with prefetch it is in the list before a forward, and behind another one.
  const StepSchedule s = zero3(2);
  const auto seconds = [&](OperationId id) { return is_communication(s.operation(id)) ? 3.0 : 1.0; };
  CHECK(play_in_time(s, seconds, parallel(true)).seconds < play_in_time(s, seconds, parallel(false)).seconds);
}

TEST_CASE("A GPU that replays no graph waits for the host, where work is shorter than handing it over") {
  const StepSchedule s = zero3(2);
  QueueRules rules = parallel(true);
  const auto shorter = [](OperationId) { return 1e-7; };
  const double replayed = play_in_time(s, shorter, rules).seconds;
  rules.replays = false, rules.issue = 1e-3;
  std::int64_t operations = 0;
  for (const Play& play : s.step) {
    for ([[maybe_unused]] const OperationId id : s.segments[play.segment].operations()) ++operations;
  }
  const Timeline issued = play_in_time(s, shorter, rules);
  CHECK(replayed < 1e-7 * static_cast<double>(operations) + 1e-9);
  CHECK(issued.seconds == Approx(1e-3 * static_cast<double>(operations)).epsilon(0.01));
  CHECK(issued.host > 0.5 * issued.seconds);
}

TEST_CASE("Compute is slower while a collective runs, and only then") {
  const StepSchedule s = zero3(1);
  const auto seconds = [&](OperationId id) { return is_communication(s.operation(id)) ? 0.5 : 1.0; };
  QueueRules rules = parallel();
  const Timeline alone = play_in_time(s, seconds, rules);
  rules.compute_under_collectives = 1.5;
  const Timeline slowed = play_in_time(s, seconds, rules);
  double communication = 0, compute_alone = 0, compute_slowed = 0;
  for (const TimelineSpan& span : alone.spans) {
    if (span.stream != 0) communication += span.end - span.begin;
    if (span.stream == 0) compute_alone += span.end - span.begin;
  }
  for (const TimelineSpan& span : slowed.spans) {
    if (span.stream == 0) compute_slowed += span.end - span.begin;
  }
  CHECK(compute_slowed > compute_alone);
  // A second of collectives takes at most a third of a second's work from compute.
  CHECK(compute_slowed - compute_alone <= communication * (1 - 1 / 1.5) + 1e-9);
}

TEST_CASE("A doubled price of any operation makes no step shorter, and of the serial queue exactly longer") {
  const StepSchedule s = zero3(1, 2);
  QueueRules serial = parallel();
  serial.queues = QueueMode::serial;
  const double before = play_in_time(s, seconds_of, serial).seconds;
  for (const Play& play : s.step) {
    for (const OperationId doubled : s.segments[play.segment].operations()) {
      const auto seconds = [&](OperationId id) { return seconds_of(id) * (id == doubled ? 2 : 1); };
      REQUIRE(play_in_time(s, seconds, serial).seconds == Approx(before + seconds_of(doubled)));
      REQUIRE(play_in_time(s, seconds, parallel()).seconds >= play_in_time(s, seconds_of, parallel()).seconds - 1e-9);
    }
  }
}
