#pragma once
// Processes started by a sweep.

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// The end of a child, and the signals that ask a sweep to end: TERM, INT, HUP, USR1. Signals that the sweep was
/// started to ignore, as by nohup, are left out. During the object's lifetime they are held for `wait`; the caller must
/// be the only thread.
class SweepSignals {
 public:
  SweepSignals();
  ~SweepSignals();
  SweepSignals(const SweepSignals&) = delete;
  SweepSignals& operator=(const SweepSignals&) = delete;

  /// Waits for a signal, at most `seconds`. Returns true if it asks to end.
  bool wait(double seconds);
  /// Returns how often an end has been asked for so far.
  int asked() const { return asked_; }
  /// Returns whether the last one was USR1, which Slurm sends before a limit.
  bool was_warning() const { return was_warning_; }

 private:
  int asked_ = 0;
  bool was_warning_ = false;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

struct ChildSettings {
  std::vector<std::string> words;                    ///< program and arguments
  std::filesystem::path output;                      ///< stdout and stderr are appended
  Variables environment;                             ///< in addition to this process's
  std::vector<int> inherited;                        ///< descriptors that stay open in it
  int stop_signal = 0;                               ///< asks the child to end
  double limit = 0.0;                                ///< seconds; 0: none
  std::function<void(double)> look = [](double) {};  ///< called twice a second, with the seconds since its start
};

struct ChildEnd {
  int code = 0;  ///< 128 + signal if one ended it; 127: it could not be started
  bool over_limit = false;
  std::string why_not_started;
};

/// Starts a program in its own process group and waits for it. If an end is asked for, or the limit is over, it gets
/// stop_signal. After a minute, or when asked again, it gets TERM; after ten more seconds, or when asked again, KILL.
/// Processes that it leaves running are killed. It gets TERM when this process is killed.
ChildEnd run_child(const ChildSettings& settings, SweepSignals& signals);

/// Returns a program's exit code and standard output. Its errors go to this process's. `more`: additional environment.
std::pair<int, std::string> output_of(const std::vector<std::string>& words, const Variables& more = {});

/// Finds a program of this name in PATH; empty if there is none.
std::string find_program(const std::string& name);

}  // namespace tessera
