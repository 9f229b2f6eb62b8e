#pragma once
// Families of models: one table, a row each, with the tensors of a model and the keys of its config.json. The rest of
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

// clang-format off
/// The use of a parameter in the decoder, in forward order of first use. A weight or gain stands before its bias.
enum class Role : std::uint8_t {
  token_table, position_table,
  attention_norm_gain, attention_norm_bias,
  qkv_weight, qkv_bias,  ///< one linear that makes queries, keys and values side by side
  query_weight, query_bias, key_weight, key_bias, value_weight, value_bias,
  query_norm_gain, key_norm_gain,  ///< of each head; without biases
  output_weight, output_bias,  ///< of attention
  mlp_norm_gain, mlp_norm_bias,
  gate_weight, gate_bias,  ///< of SwiGLU
  up_weight, up_bias, down_weight, down_bias,
  final_norm_gain, final_norm_bias,
  head_table  ///< of a head that is not tied to the token table
};
// clang-format on

/// Returns the role of the tensor that a tensor follows in memory without a gap. With weights of [out, in] it then
/// continues that tensor's rows: queries, keys and values are one linear. The role itself if it follows none.
Role followed_by(Role role);

/// Returns the part that reads a parameter. (A tied head reads the token table as well.)
PartKind part_of(Role role);

/// The length of a tensor's rows or columns.
enum class Length : std::uint8_t { none, vocab, context, width, head, query, key, qkv, ffn };

/// `residual`: normal, but smaller by sqrt(2 layers), as GPT-2's projections onto the residual stream. It occurs in a
/// table only: the tensor is `normal`.
enum class Initialization : std::uint8_t { zero, one, normal, residual };

/// Whether backward reads a parameter itself.
enum class InBackward : bool { not_read, read };

/// A tensor of every model of a family, or one of each of its blocks.
struct TensorRow {
  /// The models that have it: all, those with biases on query, key and value, those with norms of heads, those whose
  /// head has its own table, those with attention_bias, those with mlp_bias.
  enum class In : std::uint8_t { all, biased, normed, untied, out_biased, mlp_biased };

  Role role = Role::token_table;
  std::string_view name;  ///< Hugging Face's, {} for the block's number
  Initialization initialization = Initialization::normal;
  InBackward in_backward = InBackward::read;
  Length rows = Length::none, columns = Length::none;  ///< as stored; no columns: one dimension
  In models = In::all;

  bool is_in(const Architecture& architecture) const;
};

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
  std::string_view prefix;     ///< of its tensors' names; files of base models lack it
  const char* transformers_class;
  std::array<std::string_view, 2> class_prefixes;  ///< of all classes of Transformers that are this family
  std::span<const Preset> presets;
  std::span<const TensorRow> tensors;              ///< in the order of Role, which is that of parameters within a part
  std::array<std::span<const ConfigKey>, 2> keys;  ///< the family's own and shared ones, in the order of writing
};

/// The name of every family's head in Transformers, tied or not.
inline constexpr std::string_view kHeadName = "lm_head.weight";

/// All rows.
std::span<const FamilyRules> all_families();

/// The row of a family.
const FamilyRules& rules_of(Family family);

/// "gpt2, qwen2, llama, qwen3"
std::string names_of_families();

/// Returns a tensor's name without the prefix of any family.
std::string_view without_prefix(std::string_view name);

/// Returns the number of rows or columns; 1 for `none`.
std::int64_t size_of(Length length, const Architecture& architecture);

}  // namespace tessera
