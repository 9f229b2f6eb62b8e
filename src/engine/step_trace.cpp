#include "tessera/engine/step_trace.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

StepTrace::StepTrace(const StepSchedule& schedule, std::int64_t first, std::int64_t last)
    : schedule_(schedule),
      first_(first),
      last_(last),
      spans_(static_cast<std::size_t>((last - first + 1) * most_spans(schedule))) {
  TESSERA_ASSERT(1 <= first && first <= last, "a trace of steps {} to {}", first, last);
}

std::int64_t StepTrace::most_spans(const StepSchedule& schedule) {
  std::int64_t most = 0;
  for (const Play& play : schedule.step) {
    const Segment& segment = schedule.segments[play.segment];
    for (const OperationId id : segment.operations())
      most += 2 + static_cast<std::int64_t>(waits_of(schedule, id).size());  // a GPU has a gap before each
    most += static_cast<std::int64_t>(kTimeCategories);                      // waits of the segment's end
  }
  return most;
}

void StepTrace::begin_step(std::int64_t step) {
  step_ = step;
  play_ = -1;
  is_on_ = false;
}

void StepTrace::begin_play(SegmentId segment) {
  const auto next = static_cast<std::size_t>(play_ + 1);
  is_on_ = wants(step_) && next < schedule_.step.size() &&
           (schedule_.step[next].segment == segment || (next == 0 && segment == schedule_.fresh));
  if (is_on_) ++play_;
}

void StepTrace::add(TraceSpan span) {
  if (!is_on_) return;
  span.step = step_;
  span.play = play_;
  const auto place = static_cast<std::size_t>(used_.fetch_add(1, std::memory_order_relaxed));
  TESSERA_ASSERT(place < spans_.size(), "a trace has room for {} spans", spans_.size());
  spans_[place] = span;
}

std::span<const TraceSpan> StepTrace::spans() const {
  const auto used = static_cast<std::size_t>(used_.load());
  return {spans_.data(), std::min(used, spans_.size())};
}

void require_traceable(const StepRange& steps, const StepSchedule& schedule) {
  constexpr std::int64_t room = 4'000'000;  // of all ranks: each is some 250 bytes of JSON, and Perfetto opens that
  if (!steps.on()) return;
  const std::int64_t spans = StepTrace::most_spans(schedule) * schedule.grid.world();
  const std::int64_t most = std::max<std::int64_t>(1, room / std::max<std::int64_t>(1, spans));
  if (steps.last - steps.first < most) return;
  throw refusal("run.trace = {}:{} covers {} steps, which is too many", steps.first, steps.last,
                steps.last - steps.first + 1)
      .because("all ranks together have up to {} spans per step, and a trace has room for {}", spans, room)
      .use("at most {}", most);
}

}  // namespace tessera
