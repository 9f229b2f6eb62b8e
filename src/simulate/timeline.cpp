#include "tessera/simulate/timeline.hpp"

#include <algorithm>
#include <span>

#include "tessera/engine/operation_log.hpp"

namespace tessera {

namespace {

struct Stretch {
  double begin = 0, end = 0;
};

/// The busy times of the streams that slow other work down, in the order in which they began.
class Disturbance {
 public:
  explicit Disturbance(double factor) : factor_(factor) {}
  void add(Stretch busy) { busy_.push_back(busy); }
  /// Returns the end of work that begins at `begin` and takes `seconds` when it is undisturbed.
  double end_of(double begin, double seconds) {
    double now = begin, left = seconds;
    while (past_ < busy_.size() && busy_[past_].end <= begin) ++past_;  // compute goes on in time
    for (const Stretch& one : std::span(busy_).subspan(past_)) {
      if (one.end <= now) continue;
      const double before = std::max(0.0, one.begin - now);
      if (left <= before) break;
      left -= before, now += before;
      const double most = (one.end - now) / factor_;
      if (left <= most) return now + left * factor_;
      left -= most, now = one.end;
    }
    return now + left;
  }

 private:
  double factor_;
  std::vector<Stretch> busy_;
  std::size_t past_ = 0;
};

class QueuePlay {
 public:
  QueuePlay(const StepSchedule& schedule, const std::function<OperationTime(OperationId)>& times,
            const QueueRules& rules)
      : schedule_(schedule),
        times_(times),
        rules_(rules),
        // Communication shares a stream on cores, and copies have their own only where something is offloaded.
        streams_(stream_numbers(rules.queues, !rules.runs_ahead && rules.queues != QueueMode::chaos,
                                copies_in_steps(schedule))),
        collectives_(rules.compute_under_collectives),
        copies_(rules.compute_under_copies),
        host_under_copies_(rules.host_under_copies),
        ends_(schedule.operations.size()) {}

  Timeline play() {
    for (std::size_t i = 0; i < schedule_.step.size(); ++i) play_segment(static_cast<std::int32_t>(i));
    add_host(rules_.step);
    timeline_.seconds = now();
    return std::move(timeline_);
  }

 private:
  double& now() { return free_[0]; }
  bool on_compute(const Operation& op) const { return streams_[static_cast<std::size_t>(op.queue)] == 0; }

  void add_host(double seconds) {
    now() += seconds;
    timeline_.host += seconds;
  }
  void book(TimeCategory category, double seconds) { timeline_.time[static_cast<std::size_t>(category)] += seconds; }

  void play_segment(std::int32_t play) {
    const Segment& segment = schedule_.segments[schedule_.step[static_cast<std::size_t>(play)].segment];
    add_host(rules_.segment);
    free_.fill(now());  // all queues have joined
    issued_ = now();
    replays_ = rules_.replays && std::ranges::none_of(segment.operations(), [&](OperationId id) {
                 return schedule_.operation(id).queue == Queue::host;
               });
    for (const OperationId id : segment.operations()) run(id, play);
    join(segment);
  }

  /// Returns when the host hands an operation over. On cores the thread that computes hands over, so it comes to an
  /// operation after all the work before it; a GPU's host runs ahead.
  double issue() {
    if (!rules_.runs_ahead) return now();
    if (!replays_) issued_ += rules_.issue;
    return issued_;
  }

  void run(OperationId id, std::int32_t play) {
    const Operation& op = schedule_.operation(id);
    const int stream = streams_[static_cast<std::size_t>(op.queue)];
    double& free = free_[static_cast<std::size_t>(stream)];
    const TimeCategory category = category_of(op);
    const OperationTime time = times_(id);
    double begin = std::max(free, issue());
    if (on_compute(op)) {
      const double worked = std::clamp(worked_ - free, 0.0, begin - free);
      book(TimeCategory::exposed_other, worked);
      timeline_.host += begin - free - worked;
      begin = wait(id, begin);
    } else {
      if (!rules_.runs_ahead) add_host(rules_.issue);
      for (const OperationId other : waits_of(schedule_, id)) begin = std::max(begin, ends_[other]);
    }
    const double end = end_of(op, begin, time.seconds);
    if (on_compute(op)) {
      book(category, end - begin);
    } else {
      disturb(op, {begin, end - time.asleep});
    }
    timeline_.operations[static_cast<std::size_t>(category)] += end - begin;
    if (op.queue == Queue::host && rules_.runs_ahead) issued_ = worked_ = end;  // it works where it hands over
    timeline_.spans.push_back({id, play, stream, begin, end});
    free = ends_[id] = end;
  }

  /// Returns when work that begins at `begin` ends among what disturbs it.
  double end_of(const Operation& op, double begin, double seconds) {
    if (on_compute(op)) return copies_.end_of(begin, collectives_.end_of(begin, seconds) - begin);
    return op.queue == Queue::host ? host_under_copies_.end_of(begin, seconds) : begin + seconds;
  }

  void disturb(const Operation& op, Stretch busy) {
    (schedule_.communicates(op) ? collectives_ : copies_).add(busy);
    if (copied_bytes(schedule_, op) > 0) host_under_copies_.add(busy);
  }

  /// Lets compute wait for what an operation needs; the time is booked to what it waits for.
  double wait(OperationId id, double begin) {
    for (const OperationId other : waits_of(schedule_, id)) {
      if (ends_[other] <= begin) continue;
      book(category_of(schedule_.operation(other)), ends_[other] - begin);
      begin = ends_[other];
    }
    return begin;
  }

  /// All queues meet at a segment's border; the wait is booked to the operations that end last, in the order of the
  /// list.
  void join(const Segment& segment) {
    for (const OperationId id : segment.operations()) {
      const Operation& op = schedule_.operation(id);
      const bool is_last = ends_[id] == free_[static_cast<std::size_t>(streams_[static_cast<std::size_t>(op.queue)])];
      if (on_compute(op) || !is_last || ends_[id] <= now()) continue;
      book(category_of(op), ends_[id] - now());
      now() = ends_[id];
    }
  }

  const StepSchedule& schedule_;
  const std::function<OperationTime(OperationId)>& times_;
  const QueueRules& rules_;
  std::array<int, kQueues> streams_;
  std::array<double, kQueues> free_{};  ///< by stream: the end of its last operation
  double issued_ = 0, worked_ = 0;      ///< when the host has handed over, and was done with work of its own
  bool replays_ = false;                ///< the segment in play
  Disturbance collectives_, copies_, host_under_copies_;
  IndexedVector<OperationId, double> ends_;
  Timeline timeline_;
};

}  // namespace

Timeline play_in_time(const StepSchedule& schedule, const std::function<OperationTime(OperationId)>& times,
                      const QueueRules& rules) {
  return QueuePlay(schedule, times, rules).play();
}

}  // namespace tessera
