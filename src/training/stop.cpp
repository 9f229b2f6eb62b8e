#include "tessera/training/stop.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <utility>

#include "tessera/base/clock.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/flight/recorder.hpp"

namespace tessera {

namespace {

/// A handler can only reach static storage.
std::atomic<int> g_signal{0};
std::atomic<std::int64_t> g_received_at{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t kSameSignal = 500'000'000;              // nanoseconds: launchers may send a signal twice
constexpr std::size_t kHandlerStack = std::size_t{256} << 10;  // vector and tile registers are saved there too
constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr double kCentury = 36525.0 * 24 * 3600;
constexpr double kWriteRate = 100e6;  ///< bytes per second, of a disk with many writers
constexpr double kSlower = 1.5;       ///< a step or a checkpoint may take this many times as long as the last one
constexpr double kAtTheEnd = 0.5;     ///< seconds, to close files
constexpr double kAsking = 5;         ///< seconds for Slurm to say whether the job's end has moved

std::int64_t now_in_handler() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

extern "C" void note_signal(int number) {
  FlightRecorder::note_signal(number);
  if (g_signal.load() == 0) {
    g_received_at.store(now_in_handler());
    g_signal.store(number);
    return;
  }
  if (now_in_handler() - g_received_at.load() < kSameSignal) return;
  std::signal(number, SIG_DFL);  // a second one causes the default action
  std::raise(number);
}

/// Reads the seconds since 1970 at the start of a text that goes on with a blank or ends; nothing if it has none.
std::optional<double> seconds_in(const char* text) {
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || (*end != '\0' && *end != ' ') || !(seconds > 0)) return std::nullopt;
  return seconds;
}

/// Returns the end of the job by Slurm that was known when its script began ($SLURM_JOB_END_TIME), in seconds since
/// 1970; infinity without one.
double job_end_at_start() { return seconds_in(variable("SLURM_JOB_END_TIME").c_str()).value_or(kForever); }

/// Asks Slurm for the present end, which changes when the limit is extended or the job was suspended. Nothing if it
/// does not say so within `patience` seconds.
std::optional<double> job_end_now(double patience) {
  const std::string job = variable("SLURM_JOB_ID");
  if (job.empty() || job.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  // Of an array's tasks one has the number of the whole array, so that scontrol tells of all of them.
  const std::string command = fmt::format(
      "SLURM_TIME_FORMAT=%s timeout -s KILL {} scontrol --oneliner show job {} 2>/dev/null | grep '^JobId={} '",
      patience, job, job);
  const std::string text = shell_output(command).first;
  const std::string_view key = " EndTime=";
  const auto place = text.find(key);
  return place == std::string::npos ? std::nullopt : seconds_in(text.c_str() + place + key.size());
}

}  // namespace

StopSignals::StopSignals() : stack_(kHandlerStack) {
  g_signal.store(0);
  stack_t stack{};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  ::sigaltstack(&stack, &stack_before_);
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const Signal& signal : kSignals) sigaddset(&action.sa_mask, signal.number);
  for (const Signal& signal : kSignals) {
    struct sigaction before {};
    ::sigaction(signal.number, nullptr, &before);
    const bool is_nohup = signal.number == SIGHUP && before.sa_handler == SIG_IGN;
    if (!is_nohup) ::sigaction(signal.number, &action, nullptr);
  }
}

// The handlers stay: a signal that comes while the process ends must not make a failure of a run that has finished.
StopSignals::~StopSignals() { ::sigaltstack(&stack_before_, nullptr); }

std::string StopSignals::received() const {
  for (const auto& [number, name] : kSignals) {
    if (number == g_signal.load()) return name;
  }
  return "";
}

Deadline::Deadline(double walltime, std::chrono::steady_clock::time_point start,
                   std::function<std::optional<double>()> ask)
    : start_(start),
      walltime_(walltime > 0 ? walltime : kForever),
      job_end_(job_end_at_start()),
      ask_(std::move(ask)) {}

double Deadline::left_of_walltime() const { return walltime_ - seconds_since(start_); }

double Deadline::left_of_job() const { return job_end_ - unix_time(); }

bool Deadline::ask_again() {
  if (left_of_walltime() < left_of_job() || asked_ == job_end_) return false;
  asked_ = job_end_;
  job_end_ = ask_().value_or(asked_);
  return job_end_ != asked_;
}

std::string Deadline::name() const {
  return left_of_walltime() < left_of_job() ? "run.walltime" : "SLURM_JOB_END_TIME";
}

StopMargin::StopMargin(std::int64_t checkpoint_bytes, double seconds_left)
    : estimate_(static_cast<double>(checkpoint_bytes) / kWriteRate), most_(std::max(0.0, seconds_left / 2)) {}

double StopMargin::seconds(const LastTimes& times) const {
  const double one = kSlower * times.checkpoint.value_or(estimate_);
  const double all = times.is_writing ? 2 * one : one;
  return (times.checkpoint ? all : std::min(all, most_)) + kSlower * times.step + times.evaluations + kAtTheEnd;
}

StopConditions::StopConditions(const Options& options, const StopSignals& signals,
                               std::chrono::steady_clock::time_point start, const std::filesystem::path& folder,
                               bool is_rank_0, std::int64_t checkpoint_bytes, std::int64_t nodes)
    : checkpoint_clock_(options.checkpoint, nodes, static_cast<double>(checkpoint_bytes) / kWriteRate),
      deadline_(options.run.walltime, start,
                [patience = std::min(kAsking, options.run.timeout / 2)] { return job_end_now(patience); }),
      margin_(checkpoint_bytes, deadline_.seconds_left()),
      signals_(signals),
      stop_file_(folder / "stop"),
      checkpoint_file_(folder / "checkpoint"),
      is_rank_0_(is_rank_0) {}

bool StopConditions::looks_at_files() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_look_ < kLookEvery) return false;
  last_look_ = now;
  return true;
}

std::string StopConditions::announcement() const {
  const double left = deadline_.seconds_left(), margin = margin_.seconds({});
  if (left > kCentury) return "";
  if (left <= 0) return fmt::format("after one step: {} was reached {:.1f} s ago", deadline_.name(), -left);
  const auto at = static_cast<std::time_t>(unix_time() + std::max(0.0, left - margin));
  return fmt::format("at {:%H:%M:%S}, {:.1f} s before {}", fmt::localtime(at), margin, deadline_.name());
}

bool StopConditions::heard_signal() {
  if (const std::string signal = signals_.received(); !signal.empty()) reason_ = signal;
  return !reason_.empty();
}

/// Looks for a reason to stop: at files and at the clock on rank 0 only.
void StopConditions::look(const LastTimes& times, bool at_clock) {
  heard_signal();
  if (!is_rank_0_) return;
  if (looks_at_files()) {
    std::error_code unseen;
    stop_file_seen_ = std::filesystem::exists(stop_file_, unseen);
    const bool is_answered = std::ranges::find(answers_file_, true) != answers_file_.end();
    checkpoint_file_seen_ = !is_answered && std::filesystem::exists(checkpoint_file_, unseen);
  }
  if (stop_file_seen_ && reason_.empty()) reason_ = "the file " + stop_file_.string();
  if (!at_clock || !reason_.empty()) return;
  const double margin = margin_.seconds(times);
  if (deadline_.seconds_left() < margin + kAsking && deadline_.ask_again()) has_moved_ = true;
  if (const double left = deadline_.seconds_left(); left < margin) {
    reason_ = left > 0 ? fmt::format("{} ({:.1f} s left)", deadline_.name(), left)
                       : fmt::format("{} was reached {:.1f} s ago", deadline_.name(), -left);
  }
}

StepWish StopConditions::wish(const LastTimes& times, bool is_first_step) {
  look(times, !is_first_step);
  return {reason_.empty() ? 0 : StepRequests::kStop, times.step > kLongRest ? 1 : 0};
}

std::int32_t StopConditions::requests(const LastTimes& times) {
  look(times, true);
  std::int32_t requests = reason_.empty() ? 0 : StepRequests::kStop;
  if (!is_rank_0_) return requests;
  if (checkpoint_clock_.is_due() || checkpoint_file_seen_) requests += StepRequests::kCheckpoint;
  return requests;
}

void StopConditions::checkpoint_begins() {
  checkpoint_clock_.restart();
  answers_file_.push_back(std::exchange(checkpoint_file_seen_, false));
}

void StopConditions::checkpoint_written(double cost, double whole) {
  checkpoint_clock_.measured(cost, whole);
  const bool was_asked_for = answers_file_.front();
  answers_file_.pop_front();
  std::error_code ignored;
  if (was_asked_for) std::filesystem::remove(checkpoint_file_, ignored);
}

bool StopConditions::stopped() {
  std::error_code ignored;
  return is_rank_0_ && std::filesystem::remove(stop_file_, ignored);
}

}  // namespace tessera
