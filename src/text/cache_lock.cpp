#include "text/cache_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

/// Returns when the file was touched last, in nanoseconds; nothing if it is gone. Opening it makes a network file
/// system ask its server.
std::optional<std::int64_t> last_touch(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return std::nullopt;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

/// Returns the name that the lock has while this process removes it.
std::filesystem::path aside_of(const std::filesystem::path& file, const ProcessOwner& me) {
  return fmt::format("{}.{}.{}.tmp", file.string(), me.host, me.pid);
}

/// Removes the locks that processes left aside when they were killed. Leaves the lock of `nonce`, which goes back.
void remove_asides(const std::filesystem::path& file, const std::string& nonce) {
  const std::string prefix = file.filename().string() + ".";
  std::error_code error, ignored;
  for (std::filesystem::directory_iterator entry("." / file.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".tmp")) continue;
    const auto owner = read_owner(entry->path());
    if (!owner || owner->nonce != nonce) std::filesystem::remove(entry->path(), ignored);
  }
}

}  // namespace

CacheLock::CacheLock(std::filesystem::path file, std::string nonce, double touch)
    : file_(std::move(file)), nonce_(std::move(nonce)) {
  toucher_ = start_thread("cache lock", [this, touch] { touch_until_stopped(touch); });
}

CacheLock::~CacheLock() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  toucher_.join();
  if (const auto owner = read_owner(file_); owner && owner->nonce == nonce_) ::unlink(file_.c_str());
}

void CacheLock::touch_until_stopped(double seconds) {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return stop_; })) {
    const auto owner = read_owner(file_);
    if (owner && owner->nonce == nonce_) ::utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);
  }
}

void CacheLock::require_held() const {
  const auto owner = read_owner(file_);
  if (owner && owner->nonce == nonce_) return;
  throw IoError("{} is no longer held by this process, which did not run for a while: {}. Start it again.",
                file_.string(), owner ? owner->words() + " has it" : "it is gone");
}

/// Returns whether the holder has ended: known on this machine, assumed on another after a silence.
bool CacheLockSeeker::is_left() {
  const auto owner = read_owner(file_);
  const auto touched = last_touch(file_);
  if (!touched) return false;  // free: the next try may take it
  const double now = waited_.look();
  const std::string nonce = owner ? owner->nonce : "", seen = seen_ ? seen_->nonce : "";
  if (seen_at_ < 0 || nonce != seen || *touched != seen_touch_) {
    seen_ = owner, seen_touch_ = *touched, seen_at_ = now;
  }
  if (owner) {
    if (has_ended(*owner)) return true;
    // Slurm starts a job again only when its processes have ended.
    const ProcessOwner me = ProcessOwner::me();
    if (!me.job.empty() && owner->job == me.job && owner->restarts < me.restarts) return true;
  }
  // A holder writes its name at once: a file that stays without one belongs to a process that was killed in between.
  const double silence = owner ? times_.stale : std::min(times_.stale, 2 * times_.touch);
  return now - seen_at_ >= silence;
}

std::unique_ptr<CacheLock> CacheLockSeeker::try_take() {
  const ProcessOwner me = ProcessOwner::me();
  FileDescriptor file(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file && errno == EEXIST) {
    if (!is_left()) return nullptr;
    remove_owner(file_, seen_ ? seen_->nonce : "", aside_of(file_, me));
    file = FileDescriptor(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file && errno == EEXIST) return nullptr;
  }
  const std::string text = me.text();
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const std::string why = last_error();
    if (file) ::unlink(file_.c_str());
    throw IoError("cannot write {} ({}). Give data.cache or $TESSERA_CACHE a folder that can be written.",
                  file_.string(), why);
  }
  remove_asides(file_, me.nonce);
  return std::unique_ptr<CacheLock>(new CacheLock(file_, me.nonce, times_.touch));
}

}  // namespace tessera
