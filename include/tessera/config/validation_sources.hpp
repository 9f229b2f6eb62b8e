#pragma once
// data.val_source: one validation set, or several with names.

#include <string>
#include <vector>

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

}  // namespace tessera
