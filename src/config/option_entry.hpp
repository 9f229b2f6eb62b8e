#pragma once
// One row of the option table.

#include <functional>
#include <string>
#include <string_view>

#include "tessera/config/options.hpp"

namespace boost::program_options {
class value_semantic;
class variable_value;
}  // namespace boost::program_options

namespace tessera {

struct OptionEntry {
  std::string name;     ///< "shard.wrap"
  std::string allowed;  ///< "block|size|model", "whole number, 0 to 1024": for messages and help
  std::string help;
  /// Makes Boost's reader of the option's type; the options_description that it is added to owns it.
  const boost::program_options::value_semantic* (*reader)();
  /// Writes the reader's value into the member; false when it lies outside the option's bounds.
  std::function<bool(Options&, const boost::program_options::variable_value&)> take;
  /// Returns the member as text that the reader reads back.
  std::function<std::string(const Options&)> get;

  std::string_view section() const { return std::string_view(name).substr(0, name.find('.')); }
  std::string_view key() const { return std::string_view(name).substr(name.find('.') + 1); }
};

}  // namespace tessera
