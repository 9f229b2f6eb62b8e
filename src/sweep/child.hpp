#pragma once
// Processes that a sweep starts.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// The signals that ask a sweep to end (TERM, INT, HUP, USR1; not those that it was started to ignore, as by nohup),
/// and the end of a child. While this lives they wait for `wait`; the caller must be the only thread.
class SweepSignals {
 public:
  SweepSignals();
  ~SweepSignals();
  SweepSignals(const SweepSignals&) = delete;
  SweepSignals& operator=(const SweepSignals&) = delete;

  /// Waits for a signal, at most `seconds`. True if it asks to end.
  bool wait(double seconds);
  /// How often somebody has asked so far.
  int asked() const { return asked_; }
  /// Whether the last one was USR1, which Slurm sends before a limit.
  bool was_warning() const { return was_warning_; }

 private:
  int asked_ = 0;
  bool was_warning_ = false;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

struct ChildSettings {
  std::vector<std::string> words;  ///< program and arguments
  std::filesystem::path output;    ///< stdout and stderr are appended
  Variables environment;           ///< beside this process's
  std::vector<int> inherited;      ///< descriptors that stay open in it
  int stop_signal = 0;             ///< asks the child to end
  double limit = 0.0;              ///< seconds; 0: none
};

struct ChildEnd {
  int code = 0;  ///< 128 + signal where one ended it; 127: it could not be started
  bool over_limit = false;
  std::string why_not_started;
};

/// Starts a program in a process group of its own and waits for it. Where somebody asks to end, or the limit is over,
/// it gets stop_signal; after a minute, or when asked again, TERM; after ten seconds more, or when asked again, KILL.
/// What it leaves running is killed. It gets TERM when this process is killed.
ChildEnd run_child(const ChildSettings& settings, SweepSignals& signals);

/// A program's exit code, and what it writes to its standard output. Its errors are this process's. `more`: of its
/// environment.
std::pair<int, std::string> output_of(const std::vector<std::string>& words, const Variables& more = {});

/// Where PATH has a program of this name; empty where it has none.
std::string find_program(const std::string& name);

}  // namespace tessera
