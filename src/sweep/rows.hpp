#pragma once
// The rows of a sweep.

#include <cstdint>
#include <string>
#include <vector>

#include "sweep/sweep_file.hpp"

namespace tessera {

struct SweepRow {
  std::string name;  ///< also of its folder: letters, digits and . _ + -
  std::int64_t ranks = 1;
  Options options;      ///< validated; for these ranks as far as they are known
  std::string command;  ///< another program; empty: tessera train
  bool trains() const { return command.empty(); }
};

/// Returns the product of the varied options, then the named rows. A varied option that has no meaning with the others
/// is left out of its row, and of the name; equal rows are made once. An option of the base that has no meaning in a
/// row has its default there. With sweep.ranks, named rows that equal another and rows that cannot exist on so many
/// ranks are also left out, and noted. UsageError, naming the row, for equal names, a baseline that is not a row, and
/// refused options of rows that sweep.only names.
std::vector<SweepRow> rows_of(SweepFile& file);

/// Returns the rows that sweep.only names. Throws UsageError if there is none.
std::vector<SweepRow> chosen_rows(const std::vector<SweepRow>& rows, const std::string& only);

}  // namespace tessera
