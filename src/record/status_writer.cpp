#include "tessera/record/status_writer.hpp"

#include <fmt/format.h>

#include "tessera/base/clock.hpp"
#include "tessera/base/log.hpp"

namespace tessera {

namespace {

constexpr auto kEvery = std::chrono::seconds(2);

}  // namespace

void warn(const std::string& line) { Log(0, 1).warn(line); }

void or_warn(std::string& said, const std::function<void()>& f) {
  try {
    f();
    if (const std::string before = std::exchange(said, {}); !before.empty()) warn("no longer so: " + before);
  } catch (const IoError& error) {
    if (std::exchange(said, error.what()) != error.what()) warn(fmt::format("{}: the run goes on", error.what()));
  }
}

StatusWriter::StatusWriter(const RunFolder& folder, IoThread& io) : folder_(folder), io_(io) {
  status_.started = unix_time();
}

void StatusWriter::keep_fresh() {
  if (std::chrono::steady_clock::now() - time_ > kEvery) post();
}

void StatusWriter::post(const std::string& message) {
  if (written_.valid()) {
    if (written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    or_warn(warning_, [&] { written_.get(); });
  }
  time_ = std::chrono::steady_clock::now();
  auto write = [&folder = folder_, last = now(RunState::running, 0, message)] { folder.write_status(last, false); };
  written_ = io_.start(std::move(write), IoPriority::rows);
}

void StatusWriter::announce_stop(const std::string& line) {
  change([&](RunStatus& status) { status.message = line; });
  // This is not done by post(), which skips a write while another is under way. A failure shows with the next one.
  io_.post(IoPriority::rows, [&folder = folder_, last = now(RunState::running, 0, "")] {
    try {
      folder.write_status(last, false);
    } catch (const IoError&) {
      return;
    }
  });
}

void StatusWriter::finish(RunState state, ExitCode code, const std::string& message) {
  or_warn(warning_,
          [&] { io_.run([&, last = now(state, static_cast<int>(code), message)] { folder_.write_status(last); }); });
}

RunStatus StatusWriter::now(RunState state, int code, const std::string& message) const {
  const std::lock_guard guard(shared_);
  RunStatus status = status_;
  status.state = state;
  status.code = code;
  const bool is_stopping = state == RunState::running && !status.message.empty();
  if (!is_stopping) status.message = message;
  status.updated = unix_time();
  return status;
}

}  // namespace tessera
