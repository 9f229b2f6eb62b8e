#pragma once
// Options that only earlier versions have. Every config.ini and every checkpoint of theirs names them.

#include <span>
#include <string>
#include <string_view>

namespace tessera {

struct RemovedOption {
  std::string_view name;        ///< "shard.wrap"
  std::string_view by_default;  ///< with this value it is dropped, because this version does the same
  std::string_view instead;     ///< what to do about any other value: a sentence without its full stop
};

std::span<const RemovedOption> removed_options();

/// Returns the removed option of a full name, or nullptr.
const RemovedOption* find_removed(std::string_view name);

struct Options;

/// Returns a line about the removed options that were given at their defaults; empty if there were none.
std::string dropped_line(const Options& options);

}  // namespace tessera
