#pragma once
// Trainings whose steps are traced, and their files as tests read them.

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "plan_run.hpp"
#include "session_case.hpp"
#include "tessera/record/trace_writer.hpp"

namespace tessera::testing {

/// The account that each rank made of each step, in addition to the trace: [rank][step - 1].
using RankTotals = std::vector<std::vector<StepTimeTotals>>;

struct TracedRun {
  PlannedRun planned;
  RankTotals totals;
  std::filesystem::path path;
};

/// Trains up to `steps` on ranks as threads, with an evaluation after the first, and writes the trace.
inline TracedRun traced_run(const Options& options, const Architecture& architecture, std::int64_t ranks,
                            std::int64_t steps, const std::filesystem::path& folder) {
  TracedRun run{plan_run(options, architecture, ranks, ranks), RankTotals(static_cast<std::size_t>(ranks)), {}};
  std::mutex mutex;
  with_sessions(options, run.planned, [&](RankContext& context, TrainingSession& session) {
    for (std::int64_t step = 0; step < steps; ++step) {
      session.train_step();
      const StepTimeTotals totals = session.player().times().take();
      {
        const std::lock_guard lock(mutex);
        run.totals[static_cast<std::size_t>(context.rank())].push_back(totals);
      }
      if (step == 0) session.evaluate(1);
    }
    const std::filesystem::path path = write_trace(context, session.schedule(), session.resources().settings.queue_mode,
                                                   *session.trace(), {session.first_step(), session.step()}, folder);
    if (context.rank() == 0) run.path = path;
  });
  return run;
}

/// A span of the file; nanoseconds.
struct ReadSpan {
  std::string name, kind;
  std::int64_t process = 0, row = 0, begin = 0, end = 0;
  nlohmann::json arguments;

  std::int64_t number(const char* key) const { return arguments.at(key).get<std::int64_t>(); }
  bool is_operation() const { return arguments.contains("op"); }
};

inline std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

inline nlohmann::json read_trace(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// Returns the spans of operations and waits in the order of their begin.
inline std::vector<ReadSpan> spans_of(const nlohmann::json& trace) {
  std::vector<ReadSpan> spans;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") == "step") continue;
    const auto nanoseconds = [&](const char* key) { return std::llround(event.at(key).get<double>() * 1000); };
    const std::int64_t begin = nanoseconds("ts");
    spans.push_back({event.at("name"), event.at("cat"), event.at("pid"), event.at("tid"), begin,
                     begin + nanoseconds("dur"), event.at("args")});
  }
  std::ranges::stable_sort(spans, {}, [](const ReadSpan& s) { return std::pair(s.begin, s.end); });
  return spans;
}

/// Returns how many operations the steps' spans of a process lack or have too often. Nothing was left to steps 1 and 2.
inline std::int64_t wrong_counts(const std::vector<ReadSpan>& spans, std::int64_t process, const StepSchedule& schedule,
                                 std::int64_t first, std::int64_t last) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, int> counts;
  for (const ReadSpan& s : spans)
    if (s.process == process && s.is_operation()) ++counts[{s.number("step"), s.number("play"), s.number("op")}];
  std::int64_t wrong = 0;
  for (std::int64_t step = first; step <= last; ++step) {
    for (std::size_t play = 0; play < schedule.step.size(); ++play) {
      const bool is_fresh = schedule.fresh && play == 0 && step <= 2;
      for (const OperationId id :
           schedule.segments[is_fresh ? schedule.fresh : schedule.step[play].segment].operations())
        wrong += --counts[{step, static_cast<std::int64_t>(play), id.number()}] == 0 ? 0 : 1;
    }
  }
  for (const auto& [key, count] : counts) wrong += count != 0 ? 1 : 0;
  return wrong;
}

/// Returns how many spans begin before their predecessor on the same line ends. `line` names the line of a span.
inline std::int64_t overlaps(const std::vector<ReadSpan>& spans,
                             const std::function<std::int64_t(const ReadSpan&)>& line) {
  std::map<std::int64_t, std::int64_t> ends;
  std::int64_t count = 0;
  for (const ReadSpan& s : spans) {
    auto& end = ends.try_emplace(line(s), s.begin).first->second;
    count += s.begin < end ? 1 : 0;
    end = std::max(end, s.end);
  }
  return count;
}

/// Checks a rank's spans against the account of each step: the same clock readings, so the same nanoseconds.
inline void check_sums(const std::vector<ReadSpan>& spans, const TracedRun& run, std::int64_t rank, std::int64_t first,
                       std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) {
    StepTimeTotals sums;
    for (const ReadSpan& s : spans) {
      if (s.process != rank || s.number("step") != step) continue;
      const auto names = time_category_names();
      const auto found = std::ranges::find(names, s.arguments.at("category").get<std::string>());
      REQUIRE(found != names.end());
      const auto category = static_cast<std::size_t>(found - names.begin());
      if (s.number("stream") == 0) sums.nanoseconds[category] += s.end - s.begin;
      if (s.is_operation()) sums.operations[category] += s.end - s.begin;
    }
    const StepTimeTotals& expected = run.totals[static_cast<std::size_t>(rank)].at(static_cast<std::size_t>(step - 1));
    INFO("rank " << rank << ", step " << step);
    CHECK(sums.nanoseconds == expected.nanoseconds);
    CHECK(sums.operations == expected.operations);
  }
}

}  // namespace tessera::testing
