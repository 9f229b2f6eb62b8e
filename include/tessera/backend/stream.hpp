#pragma once
// Streams and events: the one interface through which the engine drives a CPU and a GPU alike. A host stream is a
// worker thread with a bounded queue; a serial one uses the caller's thread. A CUDA stream is a CUDA stream. One host
// thread submits work in list order; nothing is allocated after construction.

#include <cstdint>
#include <memory>
#include <string>

namespace tessera {

/// A point in a stream's work. Reusable: every record starts a new generation. A wait refers to the latest record at
/// the time the wait was submitted.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks the calling host thread until the last recorded point is reached; rethrows exceptions of the work.
  virtual void synchronize() = 0;
  /// Returns whether the last recorded point is reached, without waiting. Failed work counts as reached.
  virtual bool is_reached() = 0;
};

class Stream;

/// A piece of work: a plain function and two words, so that submitting allocates nothing.
/// Host streams call it on their thread; a CUDA stream calls it at once on the submitting thread, and it launches
/// kernels on stream.native().
struct Task {
  void (*run)(void* self, std::int64_t argument, Stream& stream) = nullptr;
  void* self = nullptr;
  std::int64_t argument = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void submit(Task task) = 0;
  /// Records `event` behind the work submitted so far.
  virtual void record(Event& event) = 0;
  /// Makes work submitted after this wait for `event`'s last record. The waiting time of host streams is in
  /// waited_ns().
  virtual void wait(Event& event) = 0;
  /// Blocks the host until the stream is empty; rethrows the first exception of its work (and forgets it).
  virtual void synchronize() = 0;
  /// Returns the nanoseconds that this stream's work has spent in wait() since construction (0 where it is not known).
  virtual std::int64_t waited_ns() const { return 0; }
  /// Returns the cudaStream_t of a CUDA stream, null on the host.
  virtual void* native() { return nullptr; }
};

/// Makes a stream that runs its work on the calling thread at once (the reference player).
std::unique_ptr<Stream> make_serial_stream(const std::string& name);
/// Makes a stream with a worker thread and a queue of `capacity` entries; submit() blocks while the queue is full.
/// After its work threw, the rest of the queue is skipped (events are still signalled, as failed) until synchronize().
std::unique_ptr<Stream> make_host_stream(const std::string& name, std::int64_t capacity = 4096);
/// Makes an event for either kind of host stream.
std::unique_ptr<Event> make_host_event();

}  // namespace tessera
