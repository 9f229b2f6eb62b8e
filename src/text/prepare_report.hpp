#pragma once
// The messages to the user while text is prepared.

#include <chrono>
#include <cstdint>
#include <string>

#include "text/token_writer.hpp"

namespace tessera {

struct PrepareJob;

/// A line that is redrawn once a second on a terminal; elsewhere one every ten seconds.
class PrepareReport {
 public:
  /// Says what is prepared, and where to; also that it goes on from an earlier process's work.
  PrepareReport(const PrepareJob& job, const std::string& where, const WriteState& start);
  ~PrepareReport();
  PrepareReport(const PrepareReport&) = delete;
  PrepareReport& operator=(const PrepareReport&) = delete;
  /// `taken`: bytes read of all files.
  void update(const WriteState& state, std::int64_t taken);
  /// Says how much it was, how fast it went, and what was bad.
  void finish(const WriteState& state);

 private:
  const PrepareJob& job_;
  std::int64_t total_, first_taken_ = -1, first_text_ = 0;
  bool is_terminal_, line_open_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
};

}  // namespace tessera
