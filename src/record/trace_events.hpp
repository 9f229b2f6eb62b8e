#pragma once
// Measured spans and the planned order as events of Chrome's trace format, which Perfetto reads
// (docs/manual/run_folder.md). A process is a rank, and a thread is a queue. Times are microseconds with three digits
// after the point, so nanoseconds.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/step_trace.hpp"
#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

class TraceEvents {
 public:
  /// `write` gets one event at a time, without separators. Events of ranks are at their times less `origin`, which is
  /// not later than any of them. `schedule` must outlive the object.
  TraceEvents(const StepSchedule& schedule, std::int64_t first_step, std::int64_t last_step, std::int64_t origin,
              std::function<void(std::string_view)> write);

  /// Writes a rank's rows, spans and memory counters, and sorts the spans. Their times are in rank 0's clock.
  void add_rank(std::int64_t rank, const std::string& host, std::vector<TraceSpan>& spans);
  /// Writes the planned order, as one more process after `ranks`. Each operation is as early as its queue and its waits
  /// allow, and as long as on the rank where it was shortest. Steps begin where rank 0's do. Call it after all ranks.
  void add_plan(std::int64_t ranks);

 private:
  struct Row {
    std::int64_t process = 0;
    int thread = 0;
  };
  void name_process(std::int64_t process, const std::string& name, int place);
  void name_rows(std::int64_t process);
  void span_event(Row row, const std::string& name, std::string_view kind, std::int64_t begin, std::int64_t end,
                  const std::string& arguments);
  void operation_event(std::int64_t rank, const TraceSpan& span);
  void wait_event(std::int64_t rank, const TraceSpan& span);
  void memory_event(std::int64_t rank, const TraceSpan& span);
  void step_events(std::int64_t rank, const std::vector<TraceSpan>& spans);
  const Segment& segment_of(std::int64_t step, std::int32_t play) const;
  std::string where(std::int64_t step, std::int32_t play) const;
  std::int64_t& shortest(std::int64_t step, std::int32_t play, OperationId id);

  const StepSchedule& schedule_;
  std::int64_t first_step_, last_step_, origin_;
  std::function<void(std::string_view)> write_;
  std::vector<std::pair<MemorySpace, IndexedVector<OperationId, CategoryBytes>>> alive_;
  std::vector<std::size_t> play_starts_;              ///< operations of a step before each play, and in total
  std::vector<std::int64_t> shortest_;                ///< nanoseconds of each operation of each step, over the ranks
  std::map<std::int64_t, std::int64_t> step_begins_;  ///< of rank 0
  std::set<std::int64_t> fresh_steps_;                ///< began with StepSchedule::fresh
};

}  // namespace tessera
