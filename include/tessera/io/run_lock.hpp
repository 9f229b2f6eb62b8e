#pragma once
// Who uses a run folder. Every rank holds a lock on one byte of RUN/log.jsonl, which is only ever
// appended to; the kernel frees it when the process dies, however it dies, so nothing stale is left behind.

#include <cstdint>
#include <filesystem>
#include <memory>

namespace tessera {

class RunLock {
 public:
  /// Rank 0 first, the others when it has it. UsageError if somebody else uses the folder and does not end within
  /// `patience` seconds (ranks of a job that was just killed take a moment). IoError where the file cannot be made.
  RunLock(const std::filesystem::path& folder, std::int64_t rank, double patience = 3.0);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// False where the file system has no locks: then two jobs on one folder are not found out.
  bool holds() const { return holds_; }

 private:
  int file_ = -1;
  bool holds_ = false;
};

}  // namespace tessera
