#pragma once
// A lock that works across nodes and file systems: a file that only one process can create. Its holder touches it every
// few seconds; one that nobody touched for a minute, or that bears no name after six seconds, is taken over.

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tessera/base/waited_time.hpp"
#include "tessera/files/process_owner.hpp"

namespace tessera {

struct CacheLockTimes {
  double touch = 3.0;   ///< seconds between two touches
  double stale = 60.0;  ///< seconds without one after which a holder counts as gone
};

class CacheLock {
 public:
  ~CacheLock();
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

  /// Throws IoError if another process took the lock over, because this one did not run for a minute.
  void require_held() const;

 private:
  friend class CacheLockSeeker;
  CacheLock(std::filesystem::path file, std::string nonce, double touch);
  void touch_until_stopped(double seconds);

  std::filesystem::path file_;
  std::string nonce_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread toucher_;
};

/// Wants one lock. The clocks of nodes differ, so it looks only for changes of the file's time, not at the time.
class CacheLockSeeker {
 public:
  CacheLockSeeker(std::filesystem::path file, CacheLockTimes times) : file_(std::move(file)), times_(times) {}
  /// Returns the lock, or nothing while another process has it. IoError.
  std::unique_ptr<CacheLock> try_take();
  /// Returns "process 4711 on node7" after a try that found a holder.
  std::string holder() const { return seen_ ? seen_->words() : "another process"; }

 private:
  bool is_left();

  std::filesystem::path file_;
  CacheLockTimes times_;
  std::optional<ProcessOwner> seen_;
  std::int64_t seen_touch_ = 0;
  WaitedTime waited_;    ///< each try looks
  double seen_at_ = -1;  ///< in its seconds; -1: never
};

}  // namespace tessera
