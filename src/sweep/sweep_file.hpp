#pragma once
// The file of a sweep as it is written; rows.hpp makes rows of it.

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/config/settings.hpp"

namespace tessera {

/// One line of [sweep.vary].
struct Varied {
  std::string name;  ///< an option, or "ranks"
  std::string place;
  std::vector<std::string> values;
};

/// One section [sweep.row NAME].
struct NamedRow {
  std::string name, place;
  std::vector<Setting> settings;  ///< options of the row
  std::int64_t ranks = 1;
  std::string command;  ///< if kind = command; empty: trains
};

struct SweepFile {
  std::filesystem::path path;
  std::string text, base_text;  ///< of the file, and of the base that it names (empty: none)
  SweepOptions sweep;           ///< with the name, the folder and the command line's options filled in
  Options common;               ///< the start of every row: options of `base`, overridden by the file's other sections
  std::vector<Varied> vary;     ///< in the order of the file
  std::vector<NamedRow> rows;   ///< in the order of the file, then those of the base
  std::vector<Setting> arguments;        ///< the command line's options of rows, which override every row's
  std::vector<Setting> sweep_arguments;  ///< the command line's of the sweep itself
  OptionNames given;                     ///< options of the sweep itself that were set
  std::vector<std::string> notes;        ///< sentences about rows that sweep.ranks leaves out
};

/// Reads `path` and the base that it names. If the command line gives an option that the file varies, it has only that
/// value. sweep.ranks replaces the ranks of all rows: the axis, and those of named rows, whose names follow. Named rows
/// that differ only in their ranks, memory-1 and memory-2, count as one. UsageError with file and line for anything
/// that a sweep's file cannot hold.
SweepFile read_sweep_file(const std::filesystem::path& path, const std::vector<Setting>& arguments);

/// Parses `text` as a number of ranks. Throws UsageError.
std::int64_t read_ranks(const std::string& text, const std::string& place);

}  // namespace tessera
