#include "sweep/attempt.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sweep/gpu_wait.hpp"
#include "sweep/launcher.hpp"
#include "sweep/needs.hpp"
#include "sweep/slurm.hpp"
#include "sweep/text_file.hpp"
#include "sweep/tokens.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/run/published.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

namespace {

constexpr int kSkipped = 77;  // a command's exit code, as in automake's tests
constexpr int kStopped = static_cast<int>(ExitCode::stopped_early);
constexpr std::size_t kLongestMessage = 2000;
constexpr std::string_view kSaid = "tessera: ";  // the first word of Tessera's errors
/// Files that a command may leave in its run's folder: metrics of a training, or the tables of a bench.
constexpr std::string_view kResults[] = {"metrics.h5", "metrics.json", "bench.h5"};

std::int64_t number_of(const std::string& text, std::int64_t otherwise) {
  return text.empty() ? otherwise : std::atoll(text.c_str());
}

/// Returns the job's number as scontrol and scancel take it: JOB, or ARRAY_TASK.
std::string slurm_job() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  return array.empty() ? variable("SLURM_JOB_ID") : array + "_" + variable("SLURM_ARRAY_TASK_ID");
}

bool is_rule(const std::string& line) { return line.size() > 20 && line.find_first_not_of('-') == std::string::npos; }

/// Returns why the process ended, in its own words: the last line that begins with "tessera:". Otherwise a launcher's
/// text between its first two rules, or else the last line. (Open MPI first says that it has ended the job, then why.)
std::string last_words(const std::string& output) {
  std::string last, error, notice;
  int rules = 0, first = 1;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    if (is_rule(line)) {
      if (++rules == first + 2 && notice.starts_with("Primary job")) notice.clear(), first = rules;
      continue;
    }
    if (line.starts_with(kSaid)) error = line.substr(kSaid.size());
    if (rules == first) notice += (notice.empty() ? "" : " ") + line.substr(begin);
    last = line;
  }
  const std::string& words = !error.empty() ? error : notice.empty() ? last : notice;
  return words.substr(0, kLongestMessage);
}

/// Returns the run's own status.json; an empty object if there is none.
nlohmann::json status_of(const std::filesystem::path& run) {
  return nlohmann::json::parse(read_small_file(run / "status.json").value_or("{}"));
}

/// Returns what the run's own status.json says; `otherwise` if it does not.
template <class T>
T said_by(const std::filesystem::path& run, const char* key, const T& otherwise) try {
  return status_of(run).value(key, otherwise);
} catch (const std::exception&) {
  return otherwise;
}

/// Returns the step of its newest checkpoint; 0 if there is none.
std::int64_t newest_step(const std::filesystem::path& run) {
  const std::vector<std::int64_t> steps = CheckpointFolder(run / "checkpoints").steps();
  return steps.empty() ? 0 : steps.back();
}

bool has_result(const std::filesystem::path& run) {
  return std::ranges::any_of(kResults, [&](std::string_view name) { return path_exists(run / name); });
}

/// Resumes a run that has begun from its newest checkpoint, which may be out of reach; until it has published one, the
/// row's own options for a first start apply.
std::vector<std::string> resume_words(const SweepRow& row, const std::filesystem::path& run) {
  if (!path_exists(run)) return {};
  const bool own_start = row.options.checkpoint.resume != "none" && newest_step(run) == 0 && !published_checkpoint(run);
  return own_start ? std::vector<std::string>{} : std::vector<std::string>{"--checkpoint.resume=auto"};
}

std::string signal_text(int code) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread
  return code > 128 ? fmt::format("ended by signal {} ({})", code - 128, ::strsignal(code - 128)) : "";
}

constexpr std::string_view kSameLine = "\r\033[K";  // goes back to its beginning, and clears it

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Returns a function that shows a row's progress: on a terminal by rewriting one line, else by a line every `every` s.
std::function<void(double)> progress_teller(const std::string& row, const std::filesystem::path& run, bool on_terminal,
                                            double every) {
  return [=, next = on_terminal ? 0.0 : every](double seconds) mutable {
    if (seconds < next) return;
    next += on_terminal ? 1.0 : every;
    print(fmt::format("{}{:<20} {:<12} {}{}", on_terminal ? kSameLine : "", row, progress_of(run),
                      format_seconds(std::floor(seconds)), on_terminal ? "" : "\n"));
  };
}

struct Attempt {
  const SweepFolder& folder;
  const SweepRow& row;
  std::int64_t repeat;
  const AttemptSettings& settings;
  RowStatus status;
  std::string note = {};          // about its device
  bool uses_accelerator = false;  // the device is one that other processes may keep busy

  std::filesystem::path run() const { return folder.run(row, repeat); }
  std::filesystem::path output() const { return folder.row(row) / "output.txt"; }

  /// Returns false if the row is not to be started.
  bool may_start() {
    const std::int64_t machines = settings.in_job ? number_of(variable("SLURM_JOB_NUM_NODES"), 1) : 1;
    const RowNeeds needs = needs_of(row, Site::here, std::max<std::int64_t>(1, row.ranks / machines));
    if (!needs.missing.empty()) return end(RowState::skipped, needs.missing, 0), false;
    if (!needs.misfit.empty()) return end(RowState::does_not_fit, needs.misfit, 0), false;
    uses_accelerator = needs.uses_accelerator;
    return true;
  }

  std::vector<std::string> words() const {
    if (!row.trains()) return command_words(row, settings.sweep.launcher, run(), tokens_for(folder, row));
    std::vector<std::string> out = train_words(settings.sweep.launcher, row.ranks, folder.config(row), run());
    const std::vector<std::string> resume = resume_words(row, run());
    out.insert(out.end(), resume.begin(), resume.end());
    return out;
  }

  void begin(const std::vector<std::string>& command) {
    status.state = RowState::running;
    status.message = repeat == 1 ? "" : fmt::format("repeat {}", repeat);
    status.code = 0;
    ++status.attempts;
    status.started = status.updated = unix_time();
    status.load = load_average();
    status.host = host_name();
    status.job = slurm_job();
    folder.write_status(row, status);
    std::ofstream(output(), std::ios::app) << "--- attempt " << status.attempts << ", " << format_utc(status.started)
                                           << ", on " << status.host << ": " << shell_text(command) << "\n"
                                           << std::flush;
    if (!row.trains()) make_folder(run());
  }

  void end(RowState state, const std::string& message, int code) {
    status.state = state;
    status.message = message;
    status.code = code;
    status.updated = unix_time();
    folder.write_status(row, status);
  }

  void finish() {
    status.repeats = std::max(status.repeats, repeat);
    const std::int64_t repeats = settings.sweep.repeat;
    const std::string said = said_by(run(), "message", std::string());
    if (repeat >= repeats) return end(RowState::done, note + (note.empty() || said.empty() ? "" : "; ") + said, 0);
    end(RowState::pending, fmt::format("{} of {} repeats are done", repeat, repeats), 0);
  }

  /// Notes a stop. `before`: the newest checkpoint's step when the attempt began. The row is pending
  /// only if its job will be started again, which sweep_job in jobs/job.sh does.
  void stopped(bool over_limit, std::int64_t before, bool asked_for_good) {
    const std::int64_t step = newest_step(run());
    const std::string at = step > 0 ? fmt::format("stopped at step {} with a checkpoint", step)
                                    : "stopped before a step was finished, without a checkpoint";
    const std::int64_t restarts = number_of(variable("SLURM_RESTART_COUNT"), 0);
    const std::string said = said_by(run(), "message", std::string());
    if (over_limit) {
      end(RowState::timed_out, fmt::format("{} (sweep.limit = {})", at, format_seconds(settings.sweep.limit)),
          kStopped);
    } else if (!settings.in_job || asked_for_good || said_by(run(), "by_stop_file", false)) {
      end(RowState::stopped, said.empty() ? at : fmt::format("{}: {}", at, said), kStopped);
    } else if (step <= before) {
      end(RowState::timed_out, at + (step > 0 ? ", where the attempt before it was" : "") + ": no progress", kStopped);
    } else if (restarts >= settings.sweep.requeues) {
      end(RowState::timed_out, fmt::format("{} after {} restarts (sweep.requeues)", at, restarts), kStopped);
    } else {
      end(RowState::pending, fmt::format("{}: goes on in restart {} of {}", at, restarts + 1, settings.sweep.requeues),
          kStopped);
    }
  }

  /// `asked`: the sweep was asked to end; `warned`: by Slurm, before a limit.
  void ended(const ChildEnd& child, const std::string& said, std::int64_t before, bool asked, bool warned) {
    const std::string words = last_words(said);
    if (!child.why_not_started.empty()) return end(RowState::failed, child.why_not_started, child.code);
    if (child.over_limit && child.code != 0 && child.code != kStopped)
      return end(RowState::timed_out, fmt::format("over sweep.limit = {}", format_seconds(settings.sweep.limit)),
                 child.code);
    if (row.trains()) {
      if (child.code == 0) return finish();
      if (child.code == kStopped) return stopped(child.over_limit, before, asked && !warned);
      if (child.code == static_cast<int>(ExitCode::does_not_fit)) return end(RowState::does_not_fit, words, child.code);
    } else {
      if (child.code == kSkipped) return end(RowState::skipped, words, 0);
      if (child.code == 0 && has_result(run())) return finish();
      if (child.code == 0)
        return end(RowState::failed,
                   fmt::format("it left no metrics.h5, metrics.json or bench.h5 in {}", run().string()),
                   static_cast<int>(ExitCode::input_output));
    }
    if (asked && warned && settings.in_job)
      return end(RowState::timed_out, "over the job's limit, without a checkpoint", child.code);
    if (asked) return end(RowState::stopped, "asked to end, without a checkpoint", child.code);
    const std::string signal = signal_text(child.code);
    const std::string both = signal.empty() || words.empty() ? signal + words : signal + ": " + words;
    end(RowState::failed, both, child.code);
  }
};

}  // namespace

std::string progress_of(const std::filesystem::path& run) try {
  const nlohmann::json json = status_of(run);
  if (json.empty()) return "";
  const auto steps = json.value("steps", std::int64_t{0});
  return steps == 0 ? "starting" : fmt::format("{}/{}", json.value("step", std::int64_t{0}), steps);
} catch (const std::exception&) {
  return "?";
}

RowStatus attempt_row(const SweepFolder& folder, const SweepRow& row, std::int64_t repeat,
                      const AttemptSettings& settings, SweepSignals& signals) {
  const RunLock lock(folder.row(row), 0, sweep_lock(settings.say));
  Attempt attempt{folder, row, repeat, settings, folder.status(row)};
  if (!attempt.may_start()) return attempt.status;
  const int asked = signals.asked();
  if (attempt.uses_accelerator) attempt.note = wait_for_gpus(signals, settings.say);
  if (signals.asked() > asked) {
    attempt.end(RowState::stopped, "asked to end before it was started", kStopped);
    return attempt.status;
  }
  ChildSettings child;
  child.words = attempt.words();
  child.output = attempt.output();
  // Processes that outlive this one prevent the row from being started a second time.
  child.inherited = {lock.descriptor()};
  child.stop_signal = row.trains() ? SIGUSR1 : SIGTERM;
  child.limit = settings.in_job ? 0.0 : settings.sweep.limit;
  // PyTorch's rows that run on a machine at the same time must not share a port.
  constexpr std::int64_t first = 10000, ports = 20000;
  child.environment = {{"MASTER_PORT", std::to_string(first + ::getpid() % ports)}};
  const bool is_ours = row.trains() || row.command.find("{tessera}") != std::string::npos;
  if (is_ours) child.environment.emplace_back(kRanksVariable, std::to_string(row.ranks));
  const Variables of_launcher = variables_of_launcher();
  child.environment.insert(child.environment.end(), of_launcher.begin(), of_launcher.end());
  const std::int64_t before = newest_step(attempt.run());
  attempt.begin(child.words);
  const std::int64_t said_before = size_of(attempt.output());
  const bool on_terminal = ::isatty(STDOUT_FILENO) != 0;
  child.look = progress_teller(row.name, attempt.run(), on_terminal, settings.progress_every);
  const ChildEnd end = run_child(child, signals);
  if (on_terminal) print(std::string(kSameLine));
  attempt.ended(end, text_behind(attempt.output(), said_before), before, signals.asked() > asked,
                signals.was_warning());
  return attempt.status;
}

}  // namespace tessera
