#include "tessera/record/trace_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "record/rank_clocks.hpp"
#include "record/trace_events.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/fresh_output.hpp"

namespace tessera {

namespace {

constexpr std::size_t kBuffer = 1 << 20;

/// Text that is written by and by.
class TraceFile {
 public:
  explicit TraceFile(const std::filesystem::path& path) : output_(path), file_(output_.beside()) {}
  void append(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBuffer) flush();
  }
  void event(std::string_view text) {
    append(std::exchange(has_events_, true) ? ",\n" : "\n");
    append(text);
  }
  void finish() {
    flush();
    output_.finish();
  }

 private:
  void flush() {
    file_.append(buffer_.data(), std::ssize(buffer_));
    buffer_.clear();
  }

  ReplacedFile output_;
  SequentialFile file_;
  std::string buffer_;
  bool has_events_ = false;
};

/// Returns the trace's facts, up to its list of events.
std::string head_of(const StepSchedule& schedule, QueueMode queues, const StepRange& steps,
                    const std::vector<RankClock>& clocks) {
  std::int64_t rank = 0;
  const auto clock_text = [&](const RankClock& clock) {
    return fmt::format(R"({{"rank":{},"offset_ns":{},"uncertainty_ns":{}}})", rank++, clock.offset, clock.uncertainty);
  };
  return fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"format":"tessera-trace-1","steps":[{},{}],"ranks":{},"strategy":"{}",)"
      R"("queues":"{}","clocks":[{}]}},"traceEvents":[)",
      steps.first, steps.last, clocks.size(), name_of(schedule.policy.strategy), spelling(queues),
      joined(clocks, clock_text, ","));
}

/// Returns the time at which the first span begins.
std::int64_t first_begin(std::span<const TraceSpan> spans) {
  TESSERA_ASSERT(!spans.empty(), "a step that is traced has spans");
  std::int64_t first = spans.front().begin;
  for (const TraceSpan& span : spans) first = std::min(first, span.begin);
  return first;
}

/// Receives the spans of a rank, its own on rank 0, with the clock of rank 0.
std::vector<TraceSpan> receive_spans(RankContext& context, std::span<const TraceSpan> mine, std::int64_t rank,
                                     const RankClock& clock) {
  std::vector<TraceSpan> spans(mine.begin(), mine.end());
  if (rank != 0) {
    const std::vector<std::byte> block = context.control().receive(static_cast<int>(rank));
    TESSERA_ASSERT(block.size() % sizeof(TraceSpan) == 0, "rank {} sent {} bytes of spans", rank, block.size());
    spans.resize(block.size() / sizeof(TraceSpan));
    if (!spans.empty()) std::memcpy(spans.data(), block.data(), block.size());
  }
  for (TraceSpan& span : spans) {
    span.begin += clock.offset;
    span.end += clock.offset;
  }
  return spans;
}

}  // namespace

static_assert(std::is_trivially_copyable_v<TraceSpan>);

std::filesystem::path write_trace(RankContext& context, const StepSchedule& schedule, QueueMode queues,
                                  const StepTrace& trace, const StepRange& played,
                                  const std::filesystem::path& folder) {
  const std::span<const TraceSpan> mine = trace.spans();
  ControlPlane& control = context.control();
  const std::vector<RankClock> clocks = compare_clocks(context);
  const std::vector<std::string> hosts = control.gather(context.host());
  const auto begins = control.gather(std::vector{first_begin(mine)});
  if (context.rank() != 0) {
    control.send(0, std::as_bytes(mine));
    return {};
  }
  const StepRange steps{std::max(trace.first(), played.first), std::min(trace.last(), played.last)};
  std::optional<TraceFile> file;
  std::optional<IoError> failure;  // the others' spans are received anyway
  const auto or_keep = [&](auto&& write) {
    try {
      if (!failure) write();
    } catch (const IoError& error) {
      failure = error;
    }
  };
  const std::filesystem::path path = folder / fmt::format("steps-{}-{}.json", steps.first, steps.last);
  or_keep([&] {
    make_folder(folder);
    file.emplace(path);
    file->append(head_of(schedule, queues, steps, clocks));
  });
  std::int64_t origin = first_begin(mine);
  for (std::size_t rank = 0; rank < begins.size(); ++rank)
    origin = std::min(origin, begins[rank][0] + clocks[rank].offset);
  TraceEvents events(schedule, steps.first, steps.last, origin, [&](std::string_view event) { file->event(event); });
  for (std::int64_t rank = 0; rank < context.size(); ++rank) {
    std::vector<TraceSpan> spans = receive_spans(context, mine, rank, clocks[static_cast<std::size_t>(rank)]);
    or_keep([&] { events.add_rank(rank, hosts[static_cast<std::size_t>(rank)], spans); });
  }
  or_keep([&] {
    events.add_plan(context.size());
    file->append("\n]}\n");
    file->finish();
  });
  if (failure) throw *failure;
  return path;
}

}  // namespace tessera
