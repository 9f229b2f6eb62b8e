#include "tessera/telemetry/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/wrap.hpp"

namespace tessera {

namespace {

constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 8;
constexpr int kWidthWithoutTerminal = kTextWidth;
constexpr double kMostTimesUsual = 20;  ///< of a longer step the rest is not its own: the process was stopped meanwhile

/// The pieces of a line; empty if the value is not known.
struct Pieces {
  std::string step, percent, loss, rate, time, exposed, left;
};

Pieces pieces_of(const ProgressState& state) {
  Pieces pieces;
  const std::string steps = fmt::format("{}", state.steps);
  pieces.step = fmt::format("step {:>{}}/{}", state.step, steps.size(), steps);
  const double share = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0.0;
  pieces.percent = fmt::format("{:3.0f}%", std::floor(100.0 * share));
  pieces.loss = fmt::format("loss {:.4f}", state.loss);
  if (std::isfinite(state.tokens_per_second)) pieces.rate = format_rate(state.tokens_per_second) + " tokens/s";
  if (std::isfinite(state.step_seconds)) pieces.time = format_seconds(state.step_seconds) + "/step";
  if (std::isfinite(state.exposed_share)) pieces.exposed = "exposed " + format_percent(state.exposed_share);
  if (std::isfinite(state.seconds_left) && state.step < state.steps) {
    pieces.left = format_seconds(state.seconds_left) + " left";
  }
  return pieces;
}

/// Draws "[====>     ]" of `width` columns.
std::string bar(const ProgressState& state, int width) {
  const int inside = width - 2;
  const double share = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0.0;
  const int full = std::clamp(static_cast<int>(share * inside), 0, inside);
  std::string text(static_cast<std::size_t>(full), '=');
  if (full < inside) text += '>';
  text.resize(static_cast<std::size_t>(inside), ' ');
  return fmt::format("[{}]", text);
}

}  // namespace

int terminal_width(std::FILE* stream) {
  winsize size{};
  const bool known = ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kWidthWithoutTerminal;
}

std::string progress_bar(const ProgressState& state, int width) {
  Pieces pieces = pieces_of(state);
  const auto text = [&](int bar_width) {
    const std::string head = bar_width > 0 ? pieces.step + " " + bar(state, bar_width) + " " + pieces.percent
                                           : pieces.step + " " + pieces.percent;
    return joined(std::array{head, pieces.loss, pieces.rate, pieces.time, pieces.exposed, pieces.left}, {}, "  ");
  };
  for (std::string* dispensable : {static_cast<std::string*>(nullptr), &pieces.exposed, &pieces.time, &pieces.rate}) {
    if (dispensable != nullptr) dispensable->clear();
    const int room = width - static_cast<int>(text(kNarrowestBar).size()) + kNarrowestBar;
    if (room >= kNarrowestBar) return text(std::min(room, kWidestBar));
  }
  return text(0).substr(0, static_cast<std::size_t>(std::max(width, 0)));
}

std::string progress_line(const ProgressState& state) {
  Pieces pieces = pieces_of(state);
  const auto text = [&] {
    return joined(std::array{pieces.step, pieces.loss, pieces.rate, pieces.time, pieces.exposed, pieces.left}, {},
                  "  ");
  };
  for (std::string* dispensable : {&pieces.time, &pieces.exposed})  // the rate says the time as well
    if (text().size() >= kTextWidth) dispensable->clear();
  return text();
}

void StepClock::add(double seconds) {
  ++count_;
  if (count_ <= 2) {
    mean_ = seconds;  // the second step's time replaces the first's
    return;
  }
  seconds = std::min(seconds, kMostTimesUsual * mean_);
  const double weight = std::max(1.0 / static_cast<double>(count_ - 1), 1.0 / 50.0);
  mean_ += weight * (seconds - mean_);
}

double StepClock::left(std::int64_t steps) const {
  return count_ == 0 ? std::numeric_limits<double>::quiet_NaN() : mean_ * static_cast<double>(steps);
}

Progress::Progress(std::FILE* stream, std::int64_t every, Style style)
    : stream_(stream), every_(every), bar_(style == Style::automatic ? is_terminal(stream) : style == Style::bar) {
  TESSERA_ASSERT(every > 0, "progress is reported every {} steps", every);
}

Progress::~Progress() {
  if (line_open_) write("\n");
}

void Progress::write(const std::string& text) {
  // A log that cannot be written is not a reason to stop a run.
  std::fputs(text.c_str(), stream_);
  std::fflush(stream_);
}

bool Progress::update(ProgressState state) {
  clock_.add(state.step_seconds);
  state.seconds_left = clock_.left(state.steps - state.step);
  const bool last = state.step >= state.steps;
  const bool first = !std::exchange(drawn_, true);
  if (!bar_) {
    if (!first && !last && state.step % every_ != 0) return false;
    write(progress_line(state) + "\n");
    return true;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!first && !last && now - last_drawn_ < std::chrono::milliseconds(100)) return false;
  last_drawn_ = now;
  last_bar_ = progress_bar(state, terminal_width(stream_) - 1);  // a full last column makes some terminals wrap
  write("\r" + last_bar_ + "\x1b[K");  // to the line's start, the bar, clear the rest of the line
  line_open_ = true;
  return true;
}

void Progress::message(const std::string& line) {
  if (!line_open_) return write(line + "\n");
  write("\r\x1b[K" + line + "\n" + last_bar_);
}

}  // namespace tessera
