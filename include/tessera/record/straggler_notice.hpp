#pragma once
// Names the rank that is slowing the others down: on the terminal when that changes, in log.jsonl with each report.

#include <string>

#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// Returns the line of log.jsonl about a report that names a rank.
std::string straggler_line(const RankRow& report);

/// Decides what deserves a line on the terminal: a rank that two reports in a row name, and the end of that.
class StragglerNotice {
 public:
  /// Returns the line to print after a report; empty if there is no news.
  std::string after(const RankRow& report);
  /// Returns the rank that was last said to be slowing the others down; -1: none.
  std::int64_t rank() const { return said_; }

 private:
  std::int64_t last_ = -1, said_ = -1;
};

}  // namespace tessera
