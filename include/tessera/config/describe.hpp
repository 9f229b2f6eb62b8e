#pragma once
// The options as text: for --help, for the documentation, for metrics files and manifests.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

/// One option with its value, for attributes of the metrics file and for manifests.
struct OptionValue {
  std::string name;   ///< "shard.wrap"
  std::string value;  ///< as an INI file spells it
  bool given;         ///< the user set it
};

/// Returns every option, in the order of the sections.
std::vector<OptionValue> flat_options(const Options& options);
/// Returns the value of one option, as an INI file spells it.
std::string value_of(const Options& options, std::string_view name);

/// Returns what `tessera train` needs to be told, as --section.key=value: options that differ from their defaults or
/// were given, without those that have no effect.
std::vector<std::string> train_arguments(const Options& options);

/// Returns the options that `is_shown` by name, by section, with type, default and meaning.
std::string help_text(const std::function<bool(std::string_view)>& is_shown = [](std::string_view) { return true; });

/// Returns the number of ranks of the run that last wrote this config.ini, by its first line (run_config). Nothing for
/// other files.
std::optional<std::int64_t> ranks_of_run(const std::filesystem::path& config);

}  // namespace tessera
