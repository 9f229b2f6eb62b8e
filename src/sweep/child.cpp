#include "sweep/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <sstream>
#include <system_error>

#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/base/waited_time.hpp"

namespace tessera {

namespace {

constexpr double kGrace = 60.0, kLastGrace = 10.0;  // seconds
constexpr int kNotStarted = 127;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    // A signal that is ignored now would still become pending once it is blocked.
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

/// Returns texts as exec takes them; they must outlive it.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> whole_environment(const Variables& more) {
  std::vector<std::string> all;
  for (const std::string& text : all_variables()) {
    const bool replaced =
        std::ranges::any_of(more, [&](const auto& one) { return text.substr(0, text.find('=')) == one.first; });
    if (!replaced) all.push_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::string error_text(int number) { return std::generic_category().message(number); }

/// Runs in the child after fork, so only calls that are allowed there. Returns if the program cannot be started.
void become(char* const* words, char* const* environment, pid_t parent, int output, int errors,
            const std::vector<int>& inherited) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kNotStarted);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, 0);
  ::dup2(output, 1);
  if (errors >= 0) ::dup2(errors, 2);
  for (const int file : inherited) ::fcntl(file, F_SETFD, 0);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // NOLINT(concurrency-mt-unsafe): the only thread
  ::execvpe(words[0], words, environment);
}

struct Forked {
  pid_t process = -1;
  int error = 0;  ///< why it was not started
};

/// Starts a program that writes to `output`, and its errors to `errors` (-1: to this process's).
Forked start(const ChildSettings& settings, int output, int errors) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("cannot make a pipe ({})", error_text(errno));
  const FileDescriptor told(ends[0]);
  FileDescriptor telling(ends[1]);
  const std::vector<std::string> variables = whole_environment(settings.environment);
  const std::vector<char*> words = pointers(settings.words), environment = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw IoError("cannot start a process ({})", error_text(errno));
  if (child == 0) {
    become(words.data(), environment.data(), parent, output, errors, settings.inherited);
    const int number = errno;
    static_cast<void>(!::write(telling.get(), &number, sizeof number));
    ::_exit(kNotStarted);
  }
  ::setpgid(child, child);
  telling.reset();
  Forked out{child, 0};
  int number = 0;
  if (::read(told.get(), &number, sizeof number) == static_cast<ssize_t>(sizeof number)) {
    ::waitpid(child, nullptr, 0);
    out.error = number;
  }
  return out;
}

/// Returns its exit code once it has ended; the rest of its group is killed first, while the number is still its own.
std::optional<int> collect(pid_t child) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    throw InternalError("waitid: {}", error_text(errno));
  if (info.si_pid == 0) return std::nullopt;
  ::kill(-child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Asks a child to end, with ever stronger signals.
class Stopper {
 public:
  Stopper(pid_t child, int first) : child_(child), first_(first) {}

  /// `now`: seconds that were waited for the child so far.
  void ask(double now) {
    ++asked_;
    if (asked_ == 1) ::kill(child_, first_);
    if (asked_ == 2) ::kill(-child_, SIGTERM);
    if (asked_ >= 3) ::kill(-child_, SIGKILL);
    next_ = now + (asked_ == 1 ? kGrace : kLastGrace);
  }
  void look(double now) {
    if (asked_ > 0 && now >= next_) ask(now);
  }
  bool has_asked() const { return asked_ > 0; }

 private:
  pid_t child_;
  int first_, asked_ = 0;
  double next_ = 0;
};

}  // namespace

SweepSignals::SweepSignals() {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);  // NOLINT(concurrency-mt-unsafe): the only thread
}

SweepSignals::~SweepSignals() {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);  // NOLINT(concurrency-mt-unsafe): the only thread
}

bool SweepSignals::wait(double seconds) {
  const sigset_t set = watched_signals();
  const auto whole = static_cast<time_t>(seconds);
  const timespec time{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  const int signal = ::sigtimedwait(&set, nullptr, &time);
  if (signal < 0 || signal == SIGCHLD) return false;
  ++asked_;
  was_warning_ = signal == SIGUSR1;
  return true;
}

ChildEnd run_child(const ChildSettings& settings, SweepSignals& signals) {
  const FileDescriptor output(::open(settings.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!output) throw IoError("cannot open {} ({})", settings.output.string(), error_text(errno));
  WaitedTime waited;
  const Forked child = start(settings, output.get(), output.get());
  ChildEnd end;
  if (child.error != 0) {
    end.code = kNotStarted;
    end.why_not_started = fmt::format("{} cannot be started ({})", settings.words.at(0), error_text(child.error));
    return end;
  }
  Stopper stopper(child.process, settings.stop_signal);
  for (;;) {
    if (const auto code = collect(child.process)) {
      end.code = *code;
      return end;
    }
    const bool is_asked = signals.wait(waited.pause());
    const double seconds = waited.look();
    if (is_asked) stopper.ask(seconds);
    stopper.look(seconds);
    settings.look(seconds);
    if (settings.limit > 0 && seconds >= settings.limit && !stopper.has_asked()) {
      end.over_limit = true;
      stopper.ask(seconds);
    }
  }
}

std::pair<int, std::string> output_of(const std::vector<std::string>& words, const Variables& more) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("cannot make a pipe ({})", error_text(errno));
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  ChildSettings settings;
  settings.words = words;
  settings.environment = more;
  const Forked child = start(settings, writing.get(), -1);
  writing.reset();
  if (child.error != 0) return {kNotStarted, error_text(child.error)};
  std::string text;
  std::array<char, 4096> block{};
  for (;;) {
    const ssize_t count = ::read(reading.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) continue;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text};
}

std::string find_program(const std::string& name) {
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = fmt::format("{}/{}", folder, name);
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace tessera
