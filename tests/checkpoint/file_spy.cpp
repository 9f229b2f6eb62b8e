// (See file_spy.hpp.) System calls are made directly: the functions here have taken the names of libc's.
#include "file_spy.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string_view>

namespace file_spy {
namespace {

struct Rule {
  std::string call, part;
  int what, from, to;
  int seen = 0;
};

struct Spy {
  std::mutex mutex;
  std::vector<Rule> rules;
  std::vector<std::string> calls;
  bool remembers = false;
  int log = -1;

  Spy() {
    if (const char* path = std::getenv("FILE_SPY_LOG"))  // NOLINT(concurrency-mt-unsafe)
      log = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    const char* text = std::getenv("FILE_SPY_RULES");  // NOLINT(concurrency-mt-unsafe)
    std::istringstream rows(text == nullptr ? "" : text);
    for (std::string row; std::getline(rows, row, ';');) {
      std::istringstream fields(row);
      std::string call, part, what, from, to;
      for (std::string* field : {&call, &part, &what, &from, &to}) std::getline(fields, *field, ',');
      rules.push_back(
          {call, part, std::stoi(what), from.empty() ? 0 : std::stoi(from), to.empty() ? kNoEnd : std::stoi(to)});
    }
  }

  bool idle() const { return rules.empty() && !remembers && log < 0; }

  /// Notes a call; returns its rule's result, or 0.
  int note(std::string_view call, const std::string& path, const std::string& to) {
    const std::lock_guard lock(mutex);
    const std::string line = std::string(call) + " " + path + (to.empty() ? "" : " " + to);
    int what = 0;
    for (Rule& rule : rules) {
      const bool meant = rule.call.empty() ? call != "open" : call == rule.call;
      if (!meant || line.find(rule.part) == std::string::npos) continue;
      const int number = rule.seen++;
      if (number >= rule.from && number <= rule.to) what = rule.what;
    }
    if (what == kKills) syscall(SYS_kill, getpid(), SIGKILL);
    if (what == kDelays) {
      usleep(kDelayMicroseconds);
      what = 0;
    }
    const bool happens = what == 0;
    if (remembers && happens && call != "open") calls.push_back(line);
    if (log >= 0 && happens && call != "open") syscall(SYS_write, log, (line + "\n").data(), line.size() + 1);
    return what;
  }
};

Spy& spy() {
  static Spy one;
  return one;
}

std::string path_of(int file) {
  char text[4096];
  const long size =
      syscall(SYS_readlinkat, AT_FDCWD, ("/proc/self/fd/" + std::to_string(file)).c_str(), text, sizeof text);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

/// Returns whether a rule replaces a call; then `result` and errno are its results.
bool takes_over(std::string_view call, const std::string& path, const std::string& to, long& result) {
  const int what = spy().note(call, path, to);
  if (what == 0) return false;
  result = what == kReturnsZero ? 0 : -1;
  if (result < 0) errno = what;
  return true;
}

bool takes_over_file(std::string_view call, int file, long& result) {
  if (spy().idle()) return false;
  const bool is_direct = (syscall(SYS_fcntl, file, F_GETFL) & O_DIRECT) != 0;
  return takes_over(call, path_of(file), is_direct ? "direct" : "", result);
}

}  // namespace

void start() {
  const std::lock_guard lock(spy().mutex);
  spy().calls.clear(), spy().rules.clear();
  spy().remembers = true;
}

std::vector<std::string> stop() {
  const std::lock_guard lock(spy().mutex);
  spy().remembers = false, spy().rules.clear();
  return std::move(spy().calls);
}

void rule(const std::string& call, const std::string& part, int what, int from, int to) {
  const std::lock_guard lock(spy().mutex);
  spy().rules.push_back({call, part, what, from, to});
}

}  // namespace file_spy

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name, cert-dcl50-cpp)
extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  long result = 0;
  if (!file_spy::spy().idle() && file_spy::takes_over("open", path, (flags & O_DIRECT) != 0 ? "direct" : "", result))
    return static_cast<int>(result);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open(path, flags, mode);
}
int fsync(int file) {
  long result = 0;
  if (file_spy::takes_over_file("fsync", file, result)) return static_cast<int>(result);
  return static_cast<int>(syscall(SYS_fsync, file));
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // there is a struct flock
int flock(int file, int operation) {
  long result = 0;
  if (file_spy::takes_over_file("flock", file, result)) return static_cast<int>(result);
  return static_cast<int>(syscall(SYS_flock, file, operation));
}
#pragma GCC diagnostic pop
int rename(const char* from, const char* to) noexcept {
  long result = 0;
  if (!file_spy::spy().idle() && file_spy::takes_over("rename", from, to, result)) return static_cast<int>(result);
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
ssize_t write(int file, const void* data, size_t bytes) {
  long result = 0;
  if (file_spy::takes_over_file("write", file, result)) return result;
  return syscall(SYS_write, file, data, bytes);
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  long result = 0;
  if (file_spy::takes_over_file("pwrite", file, result)) return result;
  return syscall(SYS_pwrite64, file, data, bytes, offset);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) { return pwrite(file, data, bytes, offset); }
int unlinkat(int folder, const char* name, int flags) noexcept {
  long result = 0;
  const std::string path =
      file_spy::spy().idle() || folder == AT_FDCWD || name[0] == '/' ? name : file_spy::path_of(folder) + "/" + name;
  if (!file_spy::spy().idle() && file_spy::takes_over("unlink", path, {}, result)) return static_cast<int>(result);
  return static_cast<int>(syscall(SYS_unlinkat, folder, name, flags));
}
int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name, cert-dcl50-cpp)
