#include "tessera/io/run_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// A lock that belongs to the open file, not to the process; `length` 0 reaches to the end of all bytes.
struct flock byte_range(std::int64_t first, std::int64_t length) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = length;
  return lock;
}

/// Takes bytes [first, first + length) and says how that went: 0 taken, 1 somebody has them, -1 no locks here.
int take(int file, std::int64_t first, std::int64_t length) {
  struct flock lock = byte_range(first, length);
  if (::fcntl(file, F_OFD_SETLK, &lock) == 0) return 0;
  return errno == EAGAIN || errno == EACCES ? 1 : -1;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& folder, std::int64_t rank, double patience) {
  const std::filesystem::path path = folder / "log.jsonl";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw IoError("cannot open {} ({})", path.string(), std::generic_category().message(errno));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  for (;;) {
    // Rank 0 needs all bytes free for a moment, then keeps its own.
    int result = take(file_, rank, rank == 0 ? 0 : 1);
    if (result == 0) {
      holds_ = true;
      struct flock others = byte_range(1, 0);
      others.l_type = F_UNLCK;
      if (rank == 0) ::fcntl(file_, F_OFD_SETLK, &others);
      return;
    }
    if (result < 0) return;
    if (std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ::close(file_);
  file_ = -1;
  throw UsageError("run.dir = {} is in use (another job writes to it): wait for it to end, or name another folder",
                   folder.string());
}

RunLock::~RunLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace tessera
