#pragma once
// The streams that play a schedule's queues, and what an operation waits for on other streams.

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/engine/peers.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// The streams of stream_numbers().
class Queues {
 public:
  Queues(Device& device, QueueMode mode, bool one_for_all, bool copies)
      : compute_(device.make_caller_stream("compute")), numbers_(stream_numbers(mode, one_for_all, copies)) {
    for (const Queue queue : {Queue::gather, Queue::reduce, Queue::replica, Queue::load, Queue::store, Queue::host}) {
      if (stream_number(queue) <= static_cast<int>(others_.size())) continue;
      const bool is_shared = one_for_all && others_.empty();
      others_.push_back(
          device.make_stream(is_shared ? "communication" : std::string(name_of(queue)), StreamPriority::high));
    }
  }

  Stream& of(Queue queue) {
    return on_compute(queue) ? *compute_ : *others_[static_cast<std::size_t>(stream_number(queue)) - 1];
  }
  /// Returns the compute stream, which also loads and stores if nothing is offloaded.
  Stream& compute() { return *compute_; }
  bool on_compute(Queue queue) const { return stream_number(queue) == 0; }
  /// Returns the number of a queue's stream; 0 is the compute stream.
  int stream_number(Queue queue) const { return numbers_[static_cast<std::size_t>(queue)]; }
  std::vector<std::unique_ptr<Stream>>& others() { return others_; }

  /// Blocks until all streams are empty; rethrows what their work threw.
  void synchronize() {
    compute_->synchronize();
    for (auto& other : others_) other->synchronize();
  }

  /// Waits for all streams after a failure. Returns what the first threw that is not a peer's failure; null if none
  /// did.
  std::exception_ptr drain() {
    std::exception_ptr own;
    const auto quietly = [&own](Stream& stream) {
      try {
        stream.synchronize();
      } catch (const PeerError&) {
        return;
      } catch (...) {
        if (!own) own = std::current_exception();
      }
    };
    quietly(*compute_);
    for (auto& other : others_) quietly(*other);
    return own;
  }

 private:
  std::unique_ptr<Stream> compute_;
  std::vector<std::unique_ptr<Stream>> others_;
  std::array<int, kQueues> numbers_;
};

/// Runs `work`. A failure is told to the other ranks before streams are drained, because the streams may wait for peers
/// that wait for this rank.
template <class Work>
void play_guarded(RankContext& context, Queues& queues, Work&& work) {
  try {
    work();
  } catch (const PeerError&) {
    // The peer may be this rank itself: one of its streams failed, and another heard of it first.
    if (const std::exception_ptr own = queues.drain()) std::rethrow_exception(own);
    throw;
  } catch (...) {
    tell_peers(context);
    queues.drain();
    throw;
  }
}

/// For each operation: those on other streams that it waits for, and the event that others wait for.
class StreamOrder {
 public:
  StreamOrder(const StepSchedule& schedule, Device& device, Queues& queues)
      : device_(device), waits_(schedule.operations.size()), events_(schedule.operations.size()) {
    for (const OperationId id : schedule.operations.ids()) {
      for (const OperationId other : waits_of(schedule, id)) {
        if (&queues.of(schedule.operation(other).queue) == &queues.of(schedule.operation(id).queue)) continue;
        if (takes_input(schedule.operation(other))) continue;  // the host's, before all its readers are issued
        waits_[id].push_back(other);
        record_after(other);
      }
    }
  }

  const std::vector<OperationId>& waits(OperationId id) const { return waits_[id]; }
  /// Has an event recorded after an operation from now on.
  void record_after(OperationId id) {
    auto& event = events_[id];
    if (event == nullptr) event = device_.make_event();
  }
  /// Returns the event of an operation that is waited for.
  Event& event(OperationId id) { return *events_[id]; }
  /// Notes that an operation was submitted.
  void submitted(OperationId id, Stream& stream) {
    if (auto& event = events_[id]) stream.record(*event);
  }

 private:
  Device& device_;
  IndexedVector<OperationId, std::vector<OperationId>> waits_;
  IndexedVector<OperationId, std::unique_ptr<Event>> events_;
};

}  // namespace tessera
