#include "tessera/training/stop_notice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/clock.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

namespace {

constexpr auto kNoticeEvery = std::chrono::milliseconds(50);

}  // namespace

double StepProgress::seconds() const { return seconds_since(start); }

double StepProgress::rest() const {
  const std::int64_t done = std::max<std::int64_t>(0, begun - ahead);
  const auto left = static_cast<double>(micro_steps - done);
  const double by_last = last_seconds * left / static_cast<double>(micro_steps);
  if (done == 0) return last_seconds > 0 ? by_last : std::numeric_limits<double>::infinity();
  return std::max(by_last, seconds() / static_cast<double>(done) * left);
}

std::string describe_stop(const StepProgress& progress) {
  if (progress.step == 0) return "stopping before the first step, so that nothing is written";
  if (!progress.may_be_given_up()) return fmt::format("stopping after step {} with a checkpoint", progress.step);
  const bool is_first = progress.step == progress.first_step;
  if (is_first && progress.rest() == std::numeric_limits<double>::infinity())
    return fmt::format("stopping within step {}, or after it with a checkpoint if it is short", progress.step);
  if (is_first) return fmt::format("stopping within step {}, so that nothing is written", progress.step);
  return fmt::format("giving up step {} and stopping after step {} with a checkpoint", progress.step,
                     progress.step - 1);
}

StopNotice::StopNotice(const StopSignals& signals, std::function<void(const std::string&)> say)
    : signals_(signals),
      say_(std::move(say)),
      thread_(start_thread("stop notice", [this](const std::stop_token& end) { look_for_signals(end); })) {}

void StopNotice::set_progress(const StepProgress& progress) {
  const std::lock_guard guard(lock_);
  progress_ = progress;
}

void StopNotice::announce(const std::string& reason) {
  std::unique_lock guard(lock_);
  tell(guard, reason);
}

/// Unlocks before it prints, because a terminal or a disk may be slow, and the training thread sets the progress.
void StopNotice::tell(std::unique_lock<std::mutex>& guard, const std::string& reason) {
  if (std::exchange(is_said_, true)) return;
  const char* const signal = signals_.received().empty() ? "" : "; again to stop without one";
  const std::string line = fmt::format("{}: {}{}", reason, describe_stop(progress_), signal);
  guard.unlock();
  say_(line);
}

void StopNotice::look_for_signals(const std::stop_token& end) {
  do {
    std::unique_lock guard(lock_);
    if (is_said_) return;
    if (const std::string signal = signals_.received(); !signal.empty()) return tell(guard, signal);
  } while (!ends_within(end, kNoticeEvery));
}

}  // namespace tessera
