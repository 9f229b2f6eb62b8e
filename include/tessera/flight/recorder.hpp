#pragma once
// A rank's flight recorder: always on, some nanoseconds per operation, and read by `tessera postmortem`.

#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/mapping.hpp"
#include "tessera/flight/record.hpp"

namespace tessera {

/// Where the ranks of a start of a run leave their files.
struct FlightFolder {
  std::filesystem::path path;
  bool is_node_local = false;  ///< because the run's folder is on a network file system
};

/// The file in RUN/flight that names the folder of each node, if the files are there.
inline constexpr const char* kNodeLocal = "node-local";

/// Returns RUN/flight; for a run on a network file system a folder of this node, in $TMPDIR or /dev/shm, which rank 0
/// names in RUN/flight/node-local. `start` names the start of the run. IoError.
FlightFolder flight_folder(const std::filesystem::path& run, const std::string& start, std::int64_t rank);
FlightFolder flight_folder(const std::filesystem::path& run, const std::string& start, std::int64_t rank,
                           bool is_on_network);

class FlightRecorder {
 public:
  /// Creates `folder`/rank-N anew. IoError if that fails, for example because the disk is full.
  FlightRecorder(const FlightFolder& folder, std::int64_t rank, std::int64_t world, const std::string& start,
                 std::uint64_t schedule, std::span<const FlightOperation> operations);
  /// Removes a file that is local to the node, if the rank has finished.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// Notes that an operation begins on a stream. begin() and end() of a stream are called by one thread at a time.
  void begin(int stream, std::int64_t operation, std::int64_t now) {
    begin(stream, {numbers_[static_cast<std::size_t>(stream)] + 1, now, 0, step(), operation});
  }
  /// The same for an operation with a given number, which is above the stream's last: not all that run are noted.
  void begin(int stream, const FlightRecord& begun) {
    set(numbers_[static_cast<std::size_t>(stream)], begun.number);
    FlightRecord& record = record_at(stream, begun.number);
    set(record.number, std::uint64_t{0});
    std::atomic_thread_fence(std::memory_order_release);
    set(record.begin, begun.begin), set(record.end, std::int64_t{0});
    set(record.step, begun.step), set(record.operation, begun.operation);
    std::atomic_ref(record.number).store(begun.number, std::memory_order_release);
  }
  /// Notes that the stream's last operation is done. One that throws stays under way.
  void end(int stream, std::int64_t now) { end(stream, numbers_[static_cast<std::size_t>(stream)], now); }
  /// Notes that an operation is done that may not be the stream's last, but is one of its last kFlightRecords.
  void end(int stream, std::uint64_t number, std::int64_t now) {
    FlightRecord& record = record_at(stream, number);
    std::atomic_ref(record.end).store(now, std::memory_order_release);
    if (now == record.begin) return;  // both were seen at once, so nobody knows how long it took
    Recent& recent = recent_[static_cast<std::size_t>(record.operation)];
    set(recent.nanoseconds[recent.count % recent.nanoseconds.size()], now - record.begin);
    set(recent.count, recent.count + 1);
  }

  void set_step(std::int64_t step) { set(header().step, step); }
  std::int64_t step() const { return get(header().step); }
  FlightPhase phase() const { return get(header().phase); }
  void enter(FlightPhase phase);
  void beat();
  /// Notes that the process was stopped from outside for so many seconds until now.
  void was_stopped(double seconds);
  /// Notes how the rank ends, once: later calls have no effect. `how`: failed, or told by another rank that did.
  void finished();
  void failed(const std::string& message, FlightEnd how = FlightEnd::failed);

  /// Sets what brings the records up to date before somebody looks at them; empty: nothing does.
  void set_look(std::function<void()> look);
  void look();

  /// Returns the last record of a stream; number 0 if there is none.
  FlightRecord last(int stream) const;
  const FlightOperation& operation(std::int64_t row) const { return operations_[row]; }
  /// Notes how long each operation should take, in seconds; 0: nobody knows.
  void expect(std::span<const double> seconds);
  /// Returns how long an operation usually takes, in seconds: as expected, or else the median of its last seven times;
  /// 0 if it has run less than three times.
  double usual_seconds(std::int64_t operation) const;
  std::int64_t rank() const { return header().rank; }
  const std::filesystem::path& folder() const { return folder_.path; }

  /// Notes a signal in this process's file, if it has one. Safe in a signal handler.
  static void note_signal(int number);

 private:
  struct alignas(64) Recent {
    std::array<std::int64_t, 7> nanoseconds{};
    std::uint64_t count = 0;
  };
  template <class T>
  static void set(T& place, T value) {
    std::atomic_ref(place).store(value, std::memory_order_relaxed);
  }
  template <class T>
  static T get(const T& place) {
    return std::atomic_ref(const_cast<T&>(place)).load(std::memory_order_relaxed);
  }
  FlightHeader& header() const { return *header_; }
  FlightRecord& record_at(int stream, std::uint64_t number) const {
    return records_[static_cast<std::uint64_t>(stream) * kFlightRecords + number % kFlightRecords];
  }

  FlightFolder folder_;
  std::filesystem::path path_;
  Mapping file_;
  FlightHeader* header_ = nullptr;
  FlightOperation* operations_ = nullptr;
  FlightRecord* records_ = nullptr;
  std::array<std::uint64_t, kFlightRings> numbers_{};
  std::vector<Recent> recent_;    ///< by operation
  std::vector<double> expected_;  ///< the same
  std::mutex look_mutex_;
  std::function<void()> look_;
};

/// A phase, from its construction to the end of its scope; then the one before it goes on. After an exception it
/// remains, because the report that follows says in which phase the rank failed. `flight` may be null.
class FlightScope {
 public:
  FlightScope(FlightRecorder* flight, FlightPhase phase)
      : flight_(flight), before_(flight != nullptr ? flight->phase() : phase) {
    if (flight_ != nullptr) flight_->enter(phase);
  }
  ~FlightScope() {
    if (flight_ != nullptr && std::uncaught_exceptions() == exceptions_) flight_->enter(before_);
  }
  FlightScope(const FlightScope&) = delete;
  FlightScope& operator=(const FlightScope&) = delete;

 private:
  FlightRecorder* flight_;
  FlightPhase before_;
  int exceptions_ = std::uncaught_exceptions();
};

/// While it lives, a fault (SIGSEGV and the like) is noted before it ends the process. Signals that something else
/// handles are left to it.
class FaultMarks {
 public:
  FaultMarks();
  ~FaultMarks();
  FaultMarks(const FaultMarks&) = delete;
  FaultMarks& operator=(const FaultMarks&) = delete;
};

}  // namespace tessera
