#pragma once
// A run's status.json: what the run does, kept by the threads that know, and written by the I/O thread.

#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/files/io_thread.hpp"
#include "tessera/run/folder.hpp"

namespace tessera {

/// Prints a warning on the terminal.
void warn(const std::string& line);

/// Calls f(), and reports each new IoError once, against what was `said` last; the next call tries again.
void or_warn(std::string& said, const std::function<void()>& f);

class StatusWriter {
 public:
  /// `folder` and `io` must outlive the object.
  StatusWriter(const RunFolder& folder, IoThread& io);

  /// Calls f(status); any thread. Nothing is written.
  template <class F>
  void change(F&& f) {
    const std::lock_guard guard(shared_);
    f(status_);
  }
  /// Writes the file, unless that was done lately or is still under way: the next status is more recent.
  void keep_fresh();
  void post(const std::string& message = {});
  /// Waits until the file that was posted last is there.
  void wait() const { written_.wait(); }
  /// Writes that the run will stop, and keeps the message until it has. Any thread.
  void announce_stop(const std::string& line);
  /// Writes the last status, and returns when it is there. Does not throw.
  void finish(RunState state, ExitCode code, const std::string& message);

 private:
  RunStatus now(RunState state, int code, const std::string& message) const;

  const RunFolder& folder_;
  IoThread& io_;
  mutable std::mutex shared_;  ///< of status_
  RunStatus status_;           ///< its message: that of an announced stop
  std::string warning_;        ///< the last
  std::future<void> written_;  ///< on the I/O thread; ready if there is none
  std::chrono::steady_clock::time_point time_;
};

}  // namespace tessera
