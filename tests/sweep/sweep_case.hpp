#pragma once
// A sweep's file in its own folder.

#include <string>
#include <vector>

#include "file_support.hpp"
#include "sweep/rows.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/settings.hpp"

namespace tessera::test {

/// Small rows on cores, in sections that a sweep's own may follow.
inline constexpr const char* kSmallRows =
    "[model]\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 16\n"
    "[train]\nmicro_batch = 2\n[run]\ndevice = cpu\n";

class SweepCase {
 public:
  /// The sweep of `text` and the words of a command line.
  SweepFile read(const std::string& text, const std::vector<std::string>& words = {}) const {
    return read_sweep_file(folder_.write("demo.ini", text), read_arguments(words).settings);
  }
  std::vector<SweepRow> rows(const std::string& text, const std::vector<std::string>& words = {}) const {
    SweepFile file = read(kSmallRows + text, words);
    return rows_of(file);
  }
  /// The message of the UsageError that reading the file and making its rows ends in.
  std::string error(const std::string& text, const std::vector<std::string>& words = {}) const {
    return message_of<UsageError>([&] {
      SweepFile file = read(text, words);
      rows_of(file);
    });
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

inline std::vector<std::string> names_of(const std::vector<SweepRow>& rows) {
  std::vector<std::string> names;
  for (const SweepRow& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace tessera::test
