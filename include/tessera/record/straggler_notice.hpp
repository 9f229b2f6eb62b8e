#pragma once
// The rank that holds the others up, in words: on the terminal when that changes, in log.jsonl with each report.

#include <string>

#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// Returns the line of log.jsonl about a report that names a rank.
std::string straggler_line(const RankRow& report);

/// Decides what is worth a line on the terminal: a rank that two reports in a row name, and the end of that.
class StragglerNotice {
 public:
  /// Returns the line to say after a report; empty: nothing new.
  std::string after(const RankRow& report);
  /// Returns the rank that was said to hold the others up; -1: none.
  std::int64_t rank() const { return said_; }

 private:
  std::int64_t last_ = -1, said_ = -1;
};

}  // namespace tessera
