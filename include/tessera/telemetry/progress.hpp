#pragma once
// Progress shown while a run goes on: a progress bar on a terminal, a line every N steps elsewhere.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

namespace tessera {

/// The state of a run after a step. NaN: not known.
struct ProgressState {
  std::int64_t step = 0;   ///< steps done
  std::int64_t steps = 0;  ///< of the whole run
  double loss = std::numeric_limits<double>::quiet_NaN();
  double tokens_per_second = std::numeric_limits<double>::quiet_NaN();
  double step_seconds = std::numeric_limits<double>::quiet_NaN();
  double exposed_share =
      std::numeric_limits<double>::quiet_NaN();  ///< of step_seconds: compute waited for communication
  double seconds_left = std::numeric_limits<double>::quiet_NaN();
};

/// Returns the columns of the terminal that a stream writes to; 100 if it writes to none.
int terminal_width(std::FILE* stream);

/// Formats one line of at most `width` columns for a terminal:
///   "step 120/1000 [===>      ]  12%  loss 3.2145  12.3K tokens/s  812 ms/step  exposed 4.1%  11 min 54 s left"
/// If it is narrow, the bar shrinks; then exposed, step time, tokens/s and the bar are left out, in this order.
std::string progress_bar(const ProgressState& state, int width);

/// Formats one line for a log: "step 120/1000  loss 3.2145  12.3K tokens/s  812 ms/step  exposed 4.1%  11 min 54 s
/// left".
std::string progress_line(const ProgressState& state);

/// Smoothed time per step, for the time left: an exponential mean over about the last 50 steps, plain over the first
/// ones. The very first is left out once there is a second (it is slower).
class StepClock {
 public:
  void add(double seconds);
  /// Returns the seconds for `steps` more steps; NaN before the first.
  double left(std::int64_t steps) const;

 private:
  std::int64_t count_ = 0;
  double mean_ = 0.0;
};

/// Writes progress to a stream; rank 0 only. On a terminal the bar is redrawn at most ten times a second and at the
/// last step. Elsewhere a line appears after every `every`-th step, the first and the last.
class Progress {
 public:
  enum class Style { automatic, bar, lines };  ///< automatic: a bar where the stream is a terminal
  Progress(std::FILE* stream, std::int64_t every, Style style = Style::automatic);
  /// Ends the bar's line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Call after a step; fills in seconds_left. Returns true when a line or bar was written.
  bool update(ProgressState state);
  /// Prints a separate line (an evaluation, a sample), above the bar.
  void message(const std::string& line);

 private:
  void write(const std::string& text);
  std::FILE* stream_;
  std::int64_t every_;
  bool bar_;
  bool line_open_ = false;  ///< a bar stands in the terminal's current line
  bool drawn_ = false;
  std::string last_bar_;
  std::chrono::steady_clock::time_point last_drawn_;
  StepClock clock_;
};

}  // namespace tessera
