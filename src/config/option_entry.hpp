#pragma once
// One row of the option table.

#include <functional>
#include <string>
#include <string_view>
#include <typeindex>

#include "tessera/config/options.hpp"
#include "tessera/config/readers.hpp"

namespace tessera {

struct OptionEntry {
  std::string name;      ///< "shard.wrap"
  std::type_index type;  ///< of its member
  std::string allowed;   ///< "block|size|model", "whole number, 0 to 1024": for messages and help
  std::string help;
  Readers readers = Readers::none;  ///< those that it affects
  /// Reads a text into the member; false where it is not an allowed value.
  std::function<bool(Options&, std::string_view)> set;
  /// Returns the member as text that `set` reads back.
  std::function<std::string(const Options&)> get;

  /// Adds readers to those of the section; or replaces them.
  void also_by(Readers more) { readers = readers | more; }
  void only_by(Readers others) { readers = others; }
  std::string_view section() const { return std::string_view(name).substr(0, name.find('.')); }
  std::string_view key() const { return std::string_view(name).substr(name.find('.') + 1); }
};

}  // namespace tessera
