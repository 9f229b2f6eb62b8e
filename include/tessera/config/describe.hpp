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

/// Every option, in the order of the sections.
std::vector<OptionValue> flat_options(const Options& options);

/// The names of all options, in the order of the sections.
std::vector<std::string> option_names();

/// The options that `is_shown` by name, by section, with type, default and meaning.
std::string help_text(const std::function<bool(std::string_view)>& is_shown = [](std::string_view) { return true; });

/// The same as Markdown tables, for inputs/README.md.
std::string option_reference_markdown();

/// How many ranks the run had that wrote this config.ini last, by its first line (run_config). Nothing for other files.
std::optional<std::int64_t> ranks_of_run(const std::filesystem::path& config);

}  // namespace tessera
