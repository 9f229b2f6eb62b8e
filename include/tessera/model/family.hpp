#pragma once
// Families of models: one table, a row each, with the modules of a model and the keys of its config.json. The rest of
// the program reads a family's row, or what is derived from it; nothing else knows one by name.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tessera/kernels/arguments.hpp"
#include "tessera/model/architecture.hpp"

namespace tessera {

enum class PartKind : std::uint8_t { embedding, attention, mlp, head };

/// The modules of a family's parameters, as Hugging Face names them in a block or outside of all. Weights, gains and
/// tables are called `MODULE.weight`, biases `MODULE.bias`. Empty: no model of the family has it.
struct ModuleNames {
  std::string_view token_table = {}, position_table = {};
  std::string_view attention_norm = {};
  std::string_view qkv = {};                          ///< queries, keys and values in one tensor, side by side,
  std::string_view query = {}, key = {}, value = {};  ///< or each in its own
  std::string_view query_norm = {}, key_norm = {};    ///< of each head
  std::string_view attention_output = {};
  std::string_view mlp_norm = {};
  std::string_view gate = {}, up = {}, down = {};  ///< no gate: GELU
  std::string_view final_norm = {};
};

/// How a parameter begins.
enum class Initialization : std::uint8_t { zero, one, normal };

/// A key of config.json: the field of Architecture that it holds, or the only value that Tessera supports.
struct ConfigKey {
  template <class T>
  struct Field {
    T Architecture::*field;
    T fallback = {};  ///< where the key is missing; sizes have none
  };
  using Size = Field<std::int64_t>;
  using Number = Field<double>;
  using Truth = Field<bool>;
  struct Text {
    const char* value;
    const char* other = nullptr;  ///< means the same
  };
  struct AllOfList {
    const char* value;
  };
  /// A field that is only `read` is written all the same where a model differs from its fallback.
  enum class Use : std::uint8_t { read_and_written, read, written };

  const char* name;
  std::variant<bool, Size, Number, Truth, Text, AllOfList> value;
  Use use = Use::read_and_written;
};

/// A published model: its sizes, and the rest where models of a family differ.
struct Preset {
  std::string_view name, other_name;  ///< ours, and the one in other programs, without its publisher
  ModelSizes sizes;
  bool tied_head = true;
  RopeScaling rope_scaling = {};
};

/// Whether the width of a head is a size (`always`, or where a model has that key), or width / heads.
enum class HeadDim : std::uint8_t { never, optional, always };

/// A row of the table.
struct FamilyRules {
  std::string_view name;    ///< as users write it, and model_type of config.json
  ModelForm form;           ///< norm, positions, MLP and biases are fixed; the rest is usual
  std::string_view blocks;  ///< what is fixed, in words, for messages
  bool has_own_sizes;       ///< false: kv_heads is heads, and ffn_width 4 x width unless it is given
  HeadDim head_dim;
  bool has_dropout;
  WeightLayout weight_layout;  ///< of every linear
  bool has_small_projections;  ///< initial weights in front of the residual stream are smaller by sqrt(2 layers)
  std::string_view prefix;     ///< of its tensors' names; files of base models lack it
  std::string_view block;      ///< of those in blocks, behind that; {} is the block's number
  const char* transformers_class;
  std::array<std::string_view, 2> class_prefixes;  ///< of all classes of Transformers that are this family
  std::span<const Preset> presets;
  ModuleNames modules;
  std::array<std::span<const ConfigKey>, 2> keys;  ///< the family's own and shared ones, in the order of writing
};

/// The module and the tensor of every family's head in Transformers, tied or not; without a prefix.
inline constexpr std::string_view kHeadModule = "lm_head", kHeadName = "lm_head.weight";

/// All rows.
std::span<const FamilyRules> all_families();

/// The row of a family.
const FamilyRules& rules_of(Family family);

/// "gpt2, qwen2, llama, qwen3"
std::string names_of_families();

/// Returns a tensor's name without the prefix of any family.
std::string_view without_prefix(std::string_view name);

}  // namespace tessera
