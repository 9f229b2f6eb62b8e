#include "text/helper.hpp"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/installation.hpp"

namespace tessera {

namespace {

/// Starts a script with `end` as its standard input and output. Returns its process.
pid_t start_script(const std::string& python, const std::string& script, const FileDescriptor& end) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, end.get(), 0);
  ::posix_spawn_file_actions_adddup2(&files, end.get(), 1);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  // In a group of its own it does not get the signals of a terminal: it ends when its input does.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string program = python, file = script;
  std::array<char*, 3> words{program.data(), file.data(), nullptr};
  pid_t process = -1;
  const int error = ::posix_spawnp(&process, program.c_str(), &files, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error == 0) return process;
  throw IoError("{} cannot be started ({})", python, std::generic_category().message(error));
}

}  // namespace

Helper::Helper(std::string_view script) : python_(variable("TESSERA_PYTHON")) {
  if (python_.empty()) python_ = "/usr/bin/python3";
  const std::string place = fmt::format("helpers/{}", script);
  const std::filesystem::path file = installed({("share/tessera/" + place).c_str(), place.c_str()});
  if (file.empty()) throw refusal("{} of the installation is not there", place).hint("Install Tessera again");
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw IoError("cannot make a socket ({})", last_error());
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor other(ends[1]);
  process_ = start_script(python_, file.string(), other);
}

Helper::~Helper() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);  // it keeps nothing, and may be busy with a template that does not end
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Helper::send(std::string_view line) {
  send_text(line);
  send_text("\n");
}

void Helper::send_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // it has ended, perhaps after saying why
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string Helper::line() {
  for (std::size_t searched = 0;; receive()) {
    if (const std::size_t end = buffer_.find('\n', used_ + searched); end != std::string::npos) {
      std::string line = bytes(end - used_);
      ++used_;
      return line;
    }
    searched = buffer_.size() - used_;
  }
}

std::string Helper::bytes(std::size_t count) {
  while (buffer_.size() - used_ < count) receive();
  used_ += count;
  return buffer_.substr(used_ - count, count);
}

/// Waits for what comes next, and lets go of what was used.
void Helper::receive() {
  buffer_.erase(0, std::exchange(used_, 0));
  const std::size_t held = buffer_.size();
  buffer_.resize(held + (std::size_t{1} << 16));
  const ssize_t got = ::recv(socket_.get(), buffer_.data() + held, buffer_.size() - held, 0);
  buffer_.resize(held + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 || (got < 0 && errno != EINTR)) throw IoError("{} ended before it answered", python_);
}

}  // namespace tessera
