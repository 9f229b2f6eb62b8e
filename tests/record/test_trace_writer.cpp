#include <set>

#include "file_support.hpp"
#include "plan_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "training/trace_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using namespace tessera::test;
using Catch::Contains;

namespace {

Options traced_options(QueueMode mode) {
  Options options = base_options();
  options.run.queues = mode;
  options.run.trace = {2, 3};
  options.train.accumulation = 2;
  return options;
}

std::int64_t line_of_stream(const ReadSpan& s) { return s.process * 100 + s.number("stream"); }
std::int64_t line_of_row(const ReadSpan& s) { return s.process * 100 + s.row; }

/// Returns the names that events of a kind give, by process and by thread if they have one.
std::map<std::pair<std::int64_t, std::int64_t>, std::string> names_in(const nlohmann::json& trace, const char* kind) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> names;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("name") == kind) names[{event.at("pid"), event.value("tid", -1)}] = event.at("args").at("name");
  }
  return names;
}

}  // namespace

TEST_CASE("every operation of the steps is in the trace once, streams do not overlap, and times add up") {
  for (const QueueMode mode : {QueueMode::serial, QueueMode::parallel, QueueMode::chaos}) {
    const TemporaryFolder folder;
    const TracedRun run = traced_run(traced_options(mode), small_gpt2(), 2, 4, folder / "trace");
    const StepSchedule& schedule = run.planned.schedule;
    CHECK(run.path == folder / "trace/steps-2-3.json");
    const std::vector<ReadSpan> spans = spans_of(read_trace(run.path));
    const auto is_planned = [](const ReadSpan& s) { return s.process == 2; };
    std::vector<ReadSpan> measured = spans;
    std::erase_if(measured, is_planned);
    INFO("queues " << static_cast<int>(mode));
    CHECK(overlaps(measured, line_of_stream) == 0);
    CHECK(overlaps(spans, line_of_row) == 0);
    for (const std::int64_t rank : {0, 1}) {
      CHECK(wrong_counts(spans, rank, schedule, 2, 3) == 0);
      check_sums(measured, run, rank, 2, 3);
      std::int64_t bytes = 0, sums = 0;
      for (const ReadSpan& s : measured) {
        if (s.process != rank || !s.arguments.contains("bytes")) continue;
        (s.kind == "all-reduce" ? sums : bytes) += s.number("bytes");
        CHECK(s.number("ranks") == 2);
      }
      CHECK(bytes == 2 * schedule.wire_bytes_per_step());
      CHECK(sums > 0);
    }
    const auto streams = [&](const ReadSpan& s) { return s.process == 0 && s.number("stream") > 0; };
    CHECK(std::ranges::any_of(measured, streams) == (mode != QueueMode::serial));
    CHECK(files_in(folder / "trace") == std::vector<std::string>{"steps-2-3.json"});
  }
}

TEST_CASE("copies and the host's work have rows and streams of their own, beside the tokens") {
  for (const Offload offload : {Offload::optimizer, Offload::params}) {
    const TemporaryFolder folder;
    Options options = traced_options(QueueMode::parallel);
    options.shard.offload = offload;
    const TracedRun run = traced_run(options, small_gpt2(), 2, 3, folder / "trace");
    std::vector<ReadSpan> spans = spans_of(read_trace(run.path));
    CHECK(overlaps(spans, line_of_row) == 0);
    std::erase_if(spans, [](const ReadSpan& s) { return s.process == 2; });
    CHECK(overlaps(spans, line_of_stream) == 0);
    std::set<std::int64_t> rows;
    for (const ReadSpan& s : spans) rows.insert(s.row);
    for (const Queue queue : {Queue::load, Queue::store, Queue::host})
      CHECK(rows.contains(static_cast<std::int64_t>(queue)));
    for (const std::int64_t rank : {0, 1}) {
      CHECK(wrong_counts(spans, rank, run.planned.schedule, 2, 3) == 0);
      check_sums(spans, run, rank, 2, 3);
    }
  }
}

TEST_CASE("the planned order has every operation behind its queue and its waits, no longer than any rank took") {
  const TemporaryFolder folder;
  const TracedRun run = traced_run(traced_options(QueueMode::parallel), small_gpt2(), 2, 3, folder / "trace");
  const StepSchedule& schedule = run.planned.schedule;
  const std::vector<ReadSpan> spans = spans_of(read_trace(run.path));
  CHECK(wrong_counts(spans, 2, schedule, 2, 3) == 0);
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, std::int64_t> ends, shortest;
  std::map<std::int64_t, OperationId> last_of_row;
  for (const ReadSpan& s : spans) {
    if (!s.is_operation() || s.process == 2) continue;
    const Key key(s.number("step"), s.number("play"), s.number("op"));
    std::int64_t& least = shortest.try_emplace(key, s.end - s.begin).first->second;
    least = std::min(least, s.end - s.begin);
  }
  for (const ReadSpan& s : spans) {
    if (s.process != 2) continue;
    const Key key(s.number("step"), s.number("play"), s.number("op"));
    const OperationId id(s.number("op"));
    REQUIRE(s.end - s.begin == shortest.at(key));
    const Operation& op = schedule.operation(id);
    REQUIRE(s.row == (takes_input(op) ? kQueues + 1 : static_cast<std::int64_t>(op.queue)));
    ends[key] = s.end;
  }
  for (const ReadSpan& s : spans) {
    if (s.process != 2) continue;
    for (const OperationId other : waits_of(schedule, OperationId(s.number("op")))) {
      const auto end = ends.find(Key(s.number("step"), s.number("play"), other.number()));
      if (end != ends.end()) REQUIRE(s.begin >= end->second);
    }
  }
}

TEST_CASE("rows have names, memory is what the plan says, and the file says whose clocks it shows") {
  const TemporaryFolder folder;
  const TracedRun run = traced_run(traced_options(QueueMode::serial), small_gpt2(), 2, 3, folder / "trace");
  const nlohmann::json trace = read_trace(run.path);
  CHECK(trace.at("otherData").at("format") == "tessera-trace-1");
  CHECK(trace.at("otherData").at("steps") == nlohmann::json{2, 3});
  CHECK(trace.at("otherData").at("queues") == "serial");
  CHECK(trace.at("otherData").at("clocks").size() == 2);
  const auto processes = names_in(trace, "process_name"), rows = names_in(trace, "thread_name");
  CHECK_THAT(processes.at({0, -1}), Contains("rank 0 (thread 0)"));
  CHECK_THAT(processes.at({2, -1}), Contains("planned order"));
  for (const ReadSpan& s : spans_of(trace)) REQUIRE(rows.contains({s.process, s.row}));

  const auto alive = alive_categories(run.planned.schedule, MemorySpace::device);
  std::vector<ReadSpan> computed = spans_of(trace);
  std::erase_if(computed, [](const ReadSpan& s) { return s.process != 1 || !s.is_operation(); });
  std::size_t i = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "C" || event.at("pid") != 1 || event.at("name") != "bytes in use, device") continue;
    const CategoryBytes& bytes = alive[OperationId(computed.at(i++).number("op"))];
    for (int c = 0; c < kCategories; ++c)
      REQUIRE(event.at("args").at(name_of(static_cast<Category>(c))) == bytes[static_cast<std::size_t>(c)]);
  }
  CHECK(i == computed.size());  // serial queues: the compute stream has every operation
  int steps = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) steps += event.value("cat", "") == "step" ? 1 : 0;
  CHECK(steps == 2 * 2);
}

TEST_CASE("a run that stops within the traced steps leaves a trace of those it did") {
  const TemporaryFolder folder;
  const TracedRun run = traced_run(traced_options(QueueMode::parallel), small_gpt2(), 1, 2, folder / "trace");
  CHECK(run.path.filename() == "steps-2-2.json");
  CHECK(wrong_counts(spans_of(read_trace(run.path)), 0, run.planned.schedule, 2, 2) == 0);
}

TEST_CASE("a trace that cannot be written leaves no rank waiting, and nothing behind") {
  const TemporaryFolder folder;
  std::ofstream(folder / "trace") << "in the way";
  CHECK_THROWS_AS(traced_run(traced_options(QueueMode::serial), small_gpt2(), 2, 3, folder / "trace"), IoError);
  CHECK(read_file(folder / "trace") == "in the way");
}

TEST_CASE("more steps than a trace has room for are refused before anything runs") {
  const PlannedRun planned = plan_run(base_options(), small_gpt2(), 2, 2);
  CHECK_NOTHROW(require_traceable({}, planned.schedule));
  CHECK_NOTHROW(require_traceable({1, 100}, planned.schedule));
  CHECK_THROWS_WITH(require_traceable({1, 1'000'000}, planned.schedule),
                    Contains("run.trace = 1:1000000 covers 1000000 steps") && Contains("at most "));
}
