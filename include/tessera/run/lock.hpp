#pragma once
// The lock of a run folder. Every rank locks one byte of RUN/log.jsonl, which is only ever appended to; the kernel
// frees the lock when the process dies, however it dies. RUN/owner.json names rank 0's process while it holds the
// folder. On a file system without locks, that file is the lock.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "tessera/base/file_descriptor.hpp"

namespace tessera {

struct LockSettings {
  /// How long to wait for a holder that may be about to end. The kernel frees a killed process's locks only after its
  /// memory, and NFS frees those of a crashed node after a lease of 90 s.
  double patience = 120.0;
  /// How long to wait if the holder is known to run on this host; the user is also told of a wait after this time.
  double patience_with_running = 3.0;
  std::string file = "log.jsonl";               ///< whose bytes are locked; never removed
  std::string option = "run.dir";               ///< the option that names the folder, for messages
  bool file_locks = true;                       ///< false: as on a file system without locks (tests)
  std::function<void(const std::string&)> say;  ///< a line for the user
};

class RunLock {
 public:
  /// Locks rank 0 first, then the others; only rank 0 creates files. Throws IoError if another process uses the folder
  /// and does not end within the patience, or if a file cannot be used, and UsageError, outside of Slurm jobs, if that
  /// process is known to run on this host.
  RunLock(const std::filesystem::path& folder, std::int64_t rank, const LockSettings& settings = {});
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Returns false if the file system has no locks, so that only owner.json keeps others away.
  bool holds() const { return holds_; }
  /// On rank 0, once the disk has space: writes owner.json if that failed before. Throws IoError.
  void write_owner();
  /// Returns the open file that has the lock; a process that inherits it shares the lock.
  int descriptor() const { return file_.get(); }
  /// On rank 0: returns the nonce of owner.json, for folder_has_owner().
  const std::string& nonce() const { return nonce_; }

 private:
  enum class Taken : std::uint8_t { yes, no, no_locks };
  Taken take();
  Taken take_owner_file();
  void wait_for(const LockSettings& settings);
  void refuse_running_holder() const;
  std::string holder() const;

  std::filesystem::path folder_, lock_file_, owner_file_;
  std::string option_;
  std::int64_t rank_ = 0;
  FileDescriptor file_;
  bool holds_ = false;
  std::string nonce_;
};

/// Returns whether the lock of this folder is free; on a file system without locks, whether its owner has ended. Throws
/// IoError.
bool is_lock_free(const std::filesystem::path& folder, const LockSettings& settings);

/// Returns whether RUN/owner.json is the one that rank 0 wrote, so that this rank sees the same folder. Waits up to
/// a minute for it, but only on network file systems, whose clients may show an older state of a folder.
bool folder_has_owner(const std::filesystem::path& folder, const std::string& nonce);

}  // namespace tessera
