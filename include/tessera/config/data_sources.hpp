#pragma once
// The lists of data.source and data.val_source: one corpus, or several with names.

#include <string>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

/// One set: files, folders and globs as data.source lists them. The name is empty where there is only one.
struct ValidationSource {
  std::string name, source;
  bool operator==(const ValidationSource&) const = default;
};

/// Parses "PATH,PATH" (one set without a name) or "NAME:PATH,PATH,NAME:PATH": a path without a name belongs to the set
/// before it. A name has letters, digits, - and _ only, so "./a:b.txt" is a path. Empty for an empty text. UsageError
/// for a name that occurs twice or is that of a dataset of /eval, and for paths before the first name.
std::vector<ValidationSource> validation_sources(const std::string& val_source);

/// One source of a mixture; alone it has no name.
struct TrainingSource {
  std::string name, source;
  double share = 1;  ///< of the samples; the shares of all sources have the sum 1
  bool operator==(const TrainingSource&) const = default;
};

/// Parses data.source: one list without a name, or "NAME:WEIGHT:PATH,PATH,NAME:WEIGHT:PATH", with names as above. What
/// exists under that name is a path. UsageError also for weights that are not above 0 and finite, and for synthetic
/// text in a mixture.
std::vector<TrainingSource> training_sources(const std::string& source);

/// Returns whether several sources are drawn by weights.
inline bool is_mixture(const DataOptions& data) { return training_sources(data.source).size() > 1; }

/// Returns the names of a mixture's sources; empty without a mixture.
std::vector<std::string> mixture_names(const DataOptions& data);

/// Says how a mixture is drawn: "chats 70%, code 30%"; empty for a single source.
std::string describe_shares(const std::vector<TrainingSource>& sources);

/// Returns the names of the sets that a run evaluates; one without a name if there is only one.
std::vector<std::string> validation_names(const DataOptions& data);

}  // namespace tessera
