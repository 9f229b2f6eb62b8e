#include "text/prepare_report.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/data/token_source.hpp"
#include "tessera/text/inspect.hpp"
#include "text/prepare.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

std::string rate_of(std::int64_t bytes, double seconds) {
  return format_bytes(static_cast<std::int64_t>(static_cast<double>(bytes) / std::max(seconds, 1e-9))) + "/s";
}

}  // namespace

PrepareReport::PrepareReport(const PrepareJob& job, const std::string& where, const WriteState& start)
    : job_(job),
      total_(job.source_bytes()),
      first_text_(start.text_bytes),
      is_terminal_(is_terminal(stdout)),
      start_(Clock::now()),
      shown_(start_) {
  if (!job.settings.say) return;
  const auto files = static_cast<std::int64_t>(job.sources.files.size());
  job.settings.say(fmt::format("preparing  {} ({}, {}) with {}, into {}", job.sources.name, counted(files, "file"),
                               format_bytes(total_), job.describe_tokenizer(), where));
  if (start.tokens > 0) job.settings.say(fmt::format("going on   after {} tokens", format_count(start.tokens)));
}

PrepareReport::~PrepareReport() {
  if (line_open_) std::fputs("\r\x1b[K", stdout), std::fflush(stdout);
}

void PrepareReport::update(const WriteState& state, std::int64_t taken) {
  if (first_taken_ < 0) first_taken_ = taken;
  const double wait = is_terminal_ ? 1.0 : 10.0;
  if (!job_.settings.say || seconds_since(shown_) < wait) return;
  shown_ = Clock::now();
  const double seconds = seconds_since(start_);
  const auto done = static_cast<double>(taken - first_taken_);
  const double left =
      done > 0 ? seconds / done * static_cast<double>(total_ - taken) : std::numeric_limits<double>::quiet_NaN();
  const double share = total_ > 0 ? static_cast<double>(taken) / static_cast<double>(total_) : 0.0;
  const std::string line =
      fmt::format("preparing  {:3.0f}%  {} tokens  {}  {} left", 100.0 * std::min(share, 1.0),
                  format_count(state.tokens), rate_of(state.text_bytes - first_text_, seconds), format_seconds(left));
  if (!is_terminal_) return job_.settings.say(line);
  std::fputs(("\r" + line + "\x1b[K").c_str(), stdout);
  std::fflush(stdout);
  line_open_ = true;
}

void PrepareReport::finish(const WriteState& state) {
  if (line_open_) std::fputs("\r\x1b[K", stdout);
  line_open_ = false;
  if (!job_.settings.say) return;
  const auto files = static_cast<std::int64_t>(job_.sources.files.size());
  job_.settings.say(fmt::format("prepared   {}, {}, {} tokens in {}: {}, {} tokens/s", counted(files, "file"),
                                counted(state.documents, "document"), state.tokens, format_seconds(state.seconds),
                                rate_of(state.text_bytes, state.seconds),
                                format_rate(static_cast<double>(state.tokens) / std::max(state.seconds, 1e-9))));
  if (state.runs > 0 || state.conversations > 0) job_.settings.say("counted    " + describe(state.counted()));
  if (state.bad == 0) return;
  job_.settings.say(describe_bad_places(state.bad, state.bad_places));
}

}  // namespace tessera
