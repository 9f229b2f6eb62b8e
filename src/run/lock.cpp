#include "tessera/run/lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/waited_time.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/file_system.hpp"
#include "tessera/files/process_owner.hpp"

namespace tessera {

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);

/// Describes a lock that belongs to the open file, not to the process; `length` 0 reaches to the end of all bytes.
struct flock byte_range(std::int64_t first, std::int64_t length) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = length;
  return lock;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& folder, std::int64_t rank, const LockSettings& settings)
    : folder_(folder),
      lock_file_(folder / settings.file),
      owner_file_(folder / "owner.json"),
      option_(settings.option),
      rank_(rank),
      file_(::open(lock_file_.c_str(), O_RDWR | O_CLOEXEC | (rank == 0 ? O_CREAT : 0), 0666)) {
  if (!file_) fail_to("open", lock_file_);
  wait_for(settings);
}

RunLock::~RunLock() {
  if (const auto owner = nonce_.empty() ? std::nullopt : read_owner(owner_file_); owner && owner->nonce == nonce_)
    ::unlink(owner_file_.c_str());
}

void RunLock::wait_for(const LockSettings& settings) {
  WaitedTime time;
  for (bool told = false;;) {
    Taken taken = settings.file_locks ? take() : Taken::no_locks;
    holds_ = taken == Taken::yes;
    const bool taken_by_file = taken == Taken::no_locks;
    if (taken_by_file) {
      if (rank_ != 0) return;
      taken = take_owner_file();
      if (taken == Taken::yes && settings.say) {
        settings.say(fmt::format("{} = {} is on a file system without file locks: only {} keeps other jobs away",
                                 option_, folder_.string(), owner_file_.string()));
      }
    } else if (holds_ && rank_ == 0) {
      try {
        write_owner();
      } catch (const IoError&) {
        // The disk is full: the caller, who has the lock, may free space and try again.
      }
    }
    if (taken == Taken::yes) return;
    const double waited = time.look();
    const bool told_now = waited >= settings.patience_with_running && !std::exchange(told, true);
    if (told_now || waited >= settings.patience) refuse_running_holder();
    if (waited >= settings.patience) {
      throw IoError("{} = {} is in use {}. Wait for it to end, or name another folder.{}", option_, folder_.string(),
                    holder(), taken_by_file ? fmt::format(" Remove {} if it has ended.", owner_file_.string()) : "");
    }
    if (told_now && settings.say) {
      settings.say(fmt::format("{} = {} is in use {}: waiting up to {:.0f} s for it", option_, folder_.string(),
                               holder(), settings.patience));
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

void RunLock::write_owner() {
  if (!nonce_.empty()) return;
  const ProcessOwner me = ProcessOwner::me();
  replace_text(owner_file_, me.text());
  nonce_ = me.nonce;
}

RunLock::Taken RunLock::take() {
  // Rank 0 needs all bytes to be free for a moment, then keeps its own.
  struct flock lock = byte_range(rank_, rank_ == 0 ? 0 : 1);
  if (::fcntl(file_.get(), F_OFD_SETLK, &lock) == 0) {
    struct flock others = byte_range(1, 0);
    others.l_type = F_UNLCK;
    if (rank_ == 0) ::fcntl(file_.get(), F_OFD_SETLK, &others);
    return Taken::yes;
  }
  if (errno == EAGAIN || errno == EACCES || errno == EINTR) return Taken::no;
  if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL) return Taken::no_locks;
  fail_to("lock", lock_file_);
}

/// On rank 0, without locks: the creator of the file has the folder. A file left by a process that died is removed.
RunLock::Taken RunLock::take_owner_file() {
  const ProcessOwner me = ProcessOwner::me();
  const auto before = read_owner(owner_file_);
  // Slurm starts a job again only when its processes have ended.
  const bool is_left =
      before && (life_of(*before) == OwnerLife::gone || (before->job == me.job && before->restarts < me.restarts));
  if (is_left) remove_owner(owner_file_, before->nonce, fmt::format("{}.{}.tmp", owner_file_.string(), me.pid));
  const FileDescriptor file(::open(owner_file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file && errno == EEXIST) return Taken::no;
  const std::string text = me.text();
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const std::string why = last_error();
    if (file) ::unlink(owner_file_.c_str());
    throw IoError("cannot write {} ({})", owner_file_.string(), why);
  }
  nonce_ = me.nonce;
  return Taken::yes;
}

std::string RunLock::holder() const {
  const auto owner = read_owner(owner_file_);
  if (!owner) return "by another job";
  return (life_of(*owner) == OwnerLife::gone ? "by other ranks of the job of " : "by ") + owner->words();
}

/// Refuses to wait for a running process, because it does not end by itself soon. Does not refuse in a Slurm job: the
/// holder may be an earlier start that is being ended, and no user is there to mend a usage error.
void RunLock::refuse_running_holder() const {
  const auto owner = read_owner(owner_file_);
  if (!ProcessOwner::me().job.empty() || !owner || life_of(*owner) != OwnerLife::running) return;
  throw refusal("{} = {} is in use by {}", option_, folder_.string(), owner->words())
      .hint("Wait for it to end, or name another folder");
}

bool is_lock_free(const std::filesystem::path& folder, const LockSettings& settings) {
  const std::filesystem::path path = folder / settings.file;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return true;
  if (!file) fail_to("open", path);
  struct flock lock = byte_range(0, 0);
  if (::fcntl(file.get(), F_OFD_GETLK, &lock) == 0) return lock.l_type == F_UNLCK;
  const auto owner = read_owner(folder / "owner.json");
  return !owner || life_of(*owner) == OwnerLife::gone;
}

bool folder_has_owner(const std::filesystem::path& folder, const std::string& nonce) {
  constexpr double kPatience = 60.0;  // seconds
  WaitedTime waited;
  for (;;) {
    const auto owner = read_owner(folder / "owner.json");
    if (owner && owner->nonce == nonce) return true;
    std::error_code unseen;
    std::filesystem::path there = std::filesystem::absolute(folder, unseen);
    while (there.has_relative_path() && !std::filesystem::exists(there, unseen)) there = there.parent_path();
    if (file_system_of(there).reach == FileSystemReach::machine || waited.look() >= kPatience) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace tessera
