#pragma once
// Names the rank that is slowing the others down, on the terminal, when that changes.

#include <string>

#include "tessera/record/reports.hpp"

namespace tessera {

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
