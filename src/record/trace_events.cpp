#include "record/trace_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/schedule/print.hpp"

namespace tessera {

namespace {

// Rows in addition to the queues: steps, and tokens, which the host's thread loads whatever copies the load queue runs.
constexpr int kStepRow = kQueues, kDataRow = kQueues + 1;
constexpr std::int64_t kNotSeen = std::numeric_limits<std::int64_t>::max();

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Writes nanoseconds as microseconds.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

int row_of(const Operation& op) { return takes_input(op) ? kDataRow : static_cast<int>(op.queue); }

/// Returns the queues that a step uses, in the order of their rows.
std::set<Queue> queues_of(const StepSchedule& schedule) {
  std::set<Queue> queues{Queue::compute};
  for (const Play& play : schedule.step) {
    for (const OperationId id : schedule.segments[play.segment].operations())
      if (const Operation& op = schedule.operation(id); !takes_input(op)) queues.insert(op.queue);
  }
  return queues;
}

}  // namespace

TraceEvents::TraceEvents(const StepSchedule& schedule, std::int64_t first_step, std::int64_t last_step,
                         std::int64_t origin, std::function<void(std::string_view)> write)
    : schedule_(schedule),
      first_step_(first_step),
      last_step_(last_step),
      origin_(origin),
      write_(std::move(write)),
      play_starts_{0} {
  for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
    const bool is_used = std::ranges::any_of(schedule.storages, [&](const Storage& s) { return s.space == space; });
    if (is_used) alive_.emplace_back(space, alive_categories(schedule, space));
  }
  for (const Play& play : schedule.step)
    play_starts_.push_back(play_starts_.back() + static_cast<std::size_t>(schedule.segments[play.segment].count));
  shortest_.assign(static_cast<std::size_t>(last_step - first_step + 1) * play_starts_.back(), kNotSeen);
}

/// Returns the segment that was played.
const Segment& TraceEvents::segment_of(std::int64_t step, std::int32_t play) const {
  const bool is_fresh = play == 0 && fresh_steps_.contains(step);
  return schedule_.segments[is_fresh ? schedule_.fresh : schedule_.step.at(static_cast<std::size_t>(play)).segment];
}

std::int64_t& TraceEvents::shortest(std::int64_t step, std::int32_t play, OperationId id) {
  const auto index = static_cast<std::size_t>(play);
  const OperationId first = segment_of(step, play).first;
  return shortest_.at(static_cast<std::size_t>(step - first_step_) * play_starts_.back() + play_starts_[index] +
                      static_cast<std::size_t>(id - first));
}

void TraceEvents::name_process(std::int64_t process, const std::string& name, int place) {
  write_(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process, quoted(name)));
  write_(
      fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", process, place));
}

void TraceEvents::name_rows(std::int64_t process) {
  const auto row = [&](int thread, std::string_view name, int place) {
    write_(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", process, thread,
                       name));
    write_(fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                       process, thread, place));
  };
  row(kStepRow, "step", -2);
  row(kDataRow, "data", -1);
  for (const Queue queue : queues_of(schedule_)) row(static_cast<int>(queue), name_of(queue), static_cast<int>(queue));
}

void TraceEvents::span_event(Row row, const std::string& name, std::string_view kind, std::int64_t begin,
                             std::int64_t end, const std::string& arguments) {
  write_(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                     quoted(name), kind, row.process, row.thread, microseconds(begin - origin_),
                     microseconds(end - begin), arguments));
}

/// Says to which step and micro-step a span belongs.
std::string TraceEvents::where(std::int64_t step, std::int32_t play) const {
  return fmt::format(R"("step":{},"play":{},"segment":{},"micro_step":{})", step, play,
                     quoted(segment_of(step, play).name), schedule_.step.at(static_cast<std::size_t>(play)).micro_step);
}

void TraceEvents::operation_event(std::int64_t rank, const TraceSpan& span) {
  const Operation& op = schedule_.operation(span.operation);
  std::string arguments = fmt::format(R"("op":{},{},"category":"{}","stream":{})", span.operation,
                                      where(span.step, span.play), name_of(span.category), span.stream);
  if (schedule_.communicates(op))
    arguments += fmt::format(R"(,"bytes":{},"ranks":{})", op.wire_bytes, schedule_.grid.size(op.group));
  if (const std::int64_t copied = copied_bytes(schedule_, op); copied > 0)
    arguments += fmt::format(R"(,"copied":{})", copied);
  span_event({rank, row_of(op)}, describe_operation(schedule_, span.operation), name_of(op.kind), span.begin, span.end,
             arguments);
  std::int64_t& least = shortest(span.step, span.play, span.operation);
  least = std::min(least, span.end - span.begin);
}

void TraceEvents::wait_event(std::int64_t rank, const TraceSpan& span) {
  const bool for_itself = span.awaited == span.operation;
  std::string arguments =
      where(span.step, span.play) + fmt::format(R"(,"category":"{}","stream":{})", name_of(span.category), span.stream);
  if (span.operation) arguments += fmt::format(R"(,"before":{})", span.operation);
  if (span.awaited && !for_itself) arguments += fmt::format(R"(,"for":{})", span.awaited);
  const std::string name = !span.awaited ? "wait for the segment's end"
                           : for_itself  ? "start of " + describe_operation(schedule_, span.operation)
                                         : "wait for " + describe_operation(schedule_, span.awaited);
  span_event({rank, static_cast<int>(Queue::compute)}, name, "wait", span.begin, span.end, arguments);
}

/// Shows the memory in use once an operation of the compute stream begins, as the plan counts it.
void TraceEvents::memory_event(std::int64_t rank, const TraceSpan& span) {
  for (const auto& [space, alive] : alive_) {
    std::string arguments;
    for (int c = 0; c < kCategories; ++c) {
      arguments += fmt::format(R"({}"{}":{})", c == 0 ? "" : ",", name_of(static_cast<Category>(c)),
                               alive[span.operation][static_cast<std::size_t>(c)]);
    }
    write_(fmt::format(R"({{"ph":"C","name":"bytes in use, {}","pid":{},"ts":{},"args":{{{}}}}})", name_of(space), rank,
                       microseconds(span.begin - origin_), arguments));
  }
}

/// Writes a span for each step, from its first to its last.
void TraceEvents::step_events(std::int64_t rank, const std::vector<TraceSpan>& spans) {
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> steps;
  for (const TraceSpan& span : spans) {
    if (const auto id = span.operation; schedule_.fresh && id) {
      const Segment& fresh = schedule_.segments[schedule_.fresh];
      if (fresh.first <= id && id <= fresh.last()) fresh_steps_.insert(span.step);
    }
    auto& [begin, end] = steps.try_emplace(span.step, span.begin, span.end).first->second;
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  for (const auto& [step, time] : steps) {
    span_event({rank, kStepRow}, fmt::format("step {}", step), "step", time.first, time.second,
               fmt::format(R"("step":{})", step));
    if (rank == 0) step_begins_[step] = time.first;
  }
}

void TraceEvents::add_rank(std::int64_t rank, const std::string& host, std::vector<TraceSpan>& spans) {
  std::ranges::sort(spans, [](const TraceSpan& a, const TraceSpan& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  name_process(rank, fmt::format("rank {} ({})", rank, host), static_cast<int>(rank));
  name_rows(rank);
  step_events(rank, spans);
  for (const TraceSpan& span : spans) {
    if (span.is_wait()) {
      wait_event(rank, span);
      continue;
    }
    operation_event(rank, span);
    if (span.stream == 0) memory_event(rank, span);
  }
}

void TraceEvents::add_plan(std::int64_t ranks) {
  name_process(ranks, "planned order, each operation at its shortest", -1);
  name_rows(ranks);
  for (const auto& [step, begin] : step_begins_) {
    std::int64_t border = begin;
    for (std::int32_t play = 0; play < static_cast<std::int32_t>(schedule_.step.size()); ++play) {
      const Segment& segment = segment_of(step, play);
      std::array<std::int64_t, kQueues> free{};
      free.fill(border);
      std::map<OperationId, std::int64_t> ends;
      for (const OperationId id : segment.operations()) {
        const Operation& op = schedule_.operation(id);
        std::int64_t& queue = free[static_cast<std::size_t>(op.queue)];
        std::int64_t start = queue;
        for (const OperationId other : waits_of(schedule_, id)) {
          if (const auto found = ends.find(other); found != ends.end()) start = std::max(start, found->second);
        }
        queue = ends[id] = start + shortest(step, play, id);
        span_event({ranks, row_of(op)}, describe_operation(schedule_, id), name_of(op.kind), start, queue,
                   fmt::format(R"("op":{},{})", id, where(step, play)));
      }
      border = *std::ranges::max_element(free);
    }
  }
}

}  // namespace tessera
