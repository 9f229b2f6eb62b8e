#include "engine/gpu/stream_flight.hpp"

#include "tessera/telemetry/step_times.hpp"

namespace tessera {

namespace {

std::uint32_t read(std::uint32_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }

/// Returns whether a word of segments, which may have wrapped, says that a play is done.
bool is_done(std::uint32_t word, std::uint64_t play) {
  return static_cast<std::int32_t>(word - static_cast<std::uint32_t>(2 * play)) >= 0;
}

}  // namespace

StreamFlight::StreamFlight(const StepSchedule& schedule, Device& device, Queues& queues, FailureNotice& notice,
                           FlightRecorder* flight)
    : device_(device),
      compute_(queues.compute()),
      notice_(notice),
      flight_(flight),
      first_segment_(std::ssize(schedule.operations)),
      marks_(schedule.operations.size()),
      marked_(schedule.segments.size()) {
  if (flight_ == nullptr) return;
  memory_ = device.allocate(MemoryKind::pinned, kFlightRings * sizeof(std::uint32_t));
  words_ = {reinterpret_cast<std::uint32_t*>(memory_->data()), kFlightRings};
  for (const SegmentId segment : schedule.segments.ids()) {
    for (const OperationId id : schedule.segments[segment].operations()) {
      const Operation& op = schedule.operation(id);
      const bool copies = copied_bytes(schedule, op) > 0 && !queues.on_compute(op.queue);
      if (takes_input(op) || op.queue == Queue::host || (!schedule.communicates(op) && !copies)) continue;
      // Ring 0 belongs to the host's loads. Where collectives run on the compute stream too, ring 1 is free for them.
      const auto ring = static_cast<std::size_t>(std::max(queues.stream_number(op.queue), 1));
      auto& marked = marked_[segment][ring];
      marked.push_back(id);
      marks_[id] = {ring, static_cast<std::uint32_t>(marked.size())};
    }
  }
  flight_->set_look([this] { look(); });
}

StreamFlight::~StreamFlight() {
  if (flight_ != nullptr) flight_->set_look({});
}

void StreamFlight::begin_segment(SegmentId segment) {
  if (flight_ == nullptr) return;
  look();
  {
    const std::lock_guard lock(mutex_);
    flight_->begin(kSegments, first_segment_ + segment.number(), steady_nanoseconds());
    plays_.push_back({segment, flight_->step(), ++submitted_});
  }
  for (std::size_t ring = 0; ring < kSegments; ++ring) {
    if (!marked_[segment][ring].empty()) device_.write(compute_, words_[ring], 0);
  }
  device_.write(compute_, words_[kSegments], static_cast<std::uint32_t>(2 * submitted_ - 1));
}

void StreamFlight::end_segment() {
  if (flight_ != nullptr) device_.write(compute_, words_[kSegments], static_cast<std::uint32_t>(2 * submitted_));
}

void StreamFlight::write(OperationId id, Stream& stream, std::uint32_t back) {
  if (const Mark& mark = marks_[id]; mark.place > 0) device_.write(stream, words_[mark.ring], 2 * mark.place - back);
}

void StreamFlight::look() {
  if (flight_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  // Words belong to the play that runs before and after they are read.
  const std::uint32_t play = read(words_[kSegments]);
  std::array<std::uint32_t, kSegments> words{};
  for (std::size_t ring = 0; ring < kSegments; ++ring) words[ring] = read(words_[ring]);
  const bool is_same = read(words_[kSegments]) == play;
  if (notice_.is_over()) return;
  const std::int64_t now = steady_nanoseconds();
  for (; !plays_.empty() && is_done(play, plays_.front().number); plays_.pop_front()) finish(plays_.front(), now);
  if (!is_same || plays_.empty() || play != static_cast<std::uint32_t>(2 * plays_.front().number - 1)) return;
  for (std::size_t ring = 0; ring < kSegments; ++ring) note(ring, plays_.front(), words[ring], now);
}

void StreamFlight::finish(const Play& play, std::int64_t now) {
  for (std::size_t ring = 0; ring < kSegments; ++ring) {
    const std::size_t count = marked_[play.segment][ring].size();
    note(ring, play, static_cast<std::uint32_t>(2 * count), now);
    before_[ring] += count;
  }
  if (submitted_ - play.number < kFlightRecords) flight_->end(kSegments, play.number, now);
}

/// Notes what a ring's word says. Operations between those that are seen leave no record.
void StreamFlight::note(std::size_t ring, const Play& play, std::uint32_t word, std::int64_t now) {
  const std::uint32_t place = (word + 1) / 2;
  if (place == 0 || place > marked_[play.segment][ring].size()) return;
  const auto stream = static_cast<int>(ring);
  if (const std::uint64_t number = before_[ring] + place; number > begun_[ring]) {
    if (is_under_way_[ring]) flight_->end(stream, now);
    flight_->begin(stream, {number, now, 0, play.step, marked_[play.segment][ring][place - 1].number()});
    begun_[ring] = number, is_under_way_[ring] = true;
  }
  if (is_under_way_[ring] && word % 2 == 0) flight_->end(stream, now), is_under_way_[ring] = false;
}

}  // namespace tessera
