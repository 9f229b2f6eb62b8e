#pragma once
// How each family's config.json is written: a row each, with its keys and the fields of Architecture that they hold.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "tessera/model/architecture.hpp"

namespace tessera {

/// A key: the field of Architecture that it holds, or the only value that Tessera supports.
struct ConfigKey {
  template <class T>
  struct Field {
    T Architecture::*field;
    T fallback = {};  ///< where the key is missing; a size of 0 must be there
  };
  using Size = Field<std::int64_t>;
  using Number = Field<double>;
  using Truth = Field<bool>;
  struct Text {
    const char* value;
    const char* other = nullptr;  ///< means the same
  };
  struct Nothing {};  ///< the key is missing or null
  /// A field that is only `read` is written all the same where a model differs from its fallback.
  enum class Use : std::uint8_t { read_and_written, read, written };

  const char* name;
  std::variant<bool, Size, Number, Truth, Text, Nothing> value;
  Use use = Use::read_and_written;
};

/// The types of layers: those that see all, and those with a window.
inline constexpr const char *kFullAttention = "full_attention", *kSlidingAttention = "sliding_attention";

/// How a family's config.json tells of windows.
struct WindowKeys {
  std::int64_t usual = 0;   ///< sliding_window where it is missing; 0: no model of the family has windows
  bool has_switch = false;  ///< use_sliding_window switches them on, from layer max_window_layers
};

/// A row of the table.
struct ConfigForm {
  std::string_view model_type;
  const char* transformers_class;
  std::array<std::string_view, 2> class_prefixes;  ///< of all classes of Transformers that are this family
  std::array<std::span<const ConfigKey>, 2> keys;  ///< the family's own and shared ones, in the order of writing
  WindowKeys windows = {};
  std::string_view outer_type = {};  ///< model_type of models that see pictures, too, and have this in text_config
  std::int64_t query_scalar = 0;     ///< query_pre_attn_scalar where it is missing; 0: there is no such key
};

const ConfigForm& config_form(Family family);

}  // namespace tessera
