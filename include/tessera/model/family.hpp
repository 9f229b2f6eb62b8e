#pragma once
// Families of models: one table, a row each, with the modules of a model. The rest of the program reads a family's row,
// or what is derived from it; nothing else knows one by name but formats/config_form.cpp, which has a row for each too.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/kernels/arguments/linear.hpp"
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
  std::string_view attention_output = {}, attention_output_norm = {};
  std::string_view mlp_norm = {};
  std::string_view gate = {}, up = {}, down = {}, mlp_output_norm = {};  ///< no gate: GELU
  std::string_view final_norm = {};
};

/// How a parameter begins.
enum class Initialization : std::uint8_t { zero, one, normal, uniform };

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
  std::string_view name;      ///< as users write it
  ModelForm form;             ///< norm, positions, MLP and biases are fixed; the rest is usual
  std::string_view blocks;    ///< what is fixed, in words, for messages
  bool has_own_sizes = true;  ///< false: kv_heads is heads, and ffn_width 4 x width unless it is given
  HeadDim head_dim = HeadDim::optional;
  bool has_dropout = false;
  WeightLayout weight_layout = WeightLayout::out_in;  ///< of every linear
  bool has_small_projections = false;     ///< initial weights whose outputs join the stream: / sqrt(2 layers)
  std::string_view prefix = "model.";     ///< of its tensors' names; files of base models lack it
  std::string_view block = "layers.{}.";  ///< of those in blocks, behind that; {} is the block's number
  std::span<const Preset> presets;
  ModuleNames modules;
};

/// The module and the tensor of every family's head in Transformers, tied or not; without a prefix.
inline constexpr std::string_view kHeadModule = "lm_head", kHeadName = "lm_head.weight";

/// All rows.
std::span<const FamilyRules> all_families();

/// The row of a family.
const FamilyRules& rules_of(Family family);

/// "gpt2, qwen2, ..."
std::string names_of_families();

/// Returns a tensor's name without the prefix of any family.
std::string_view without_prefix(std::string_view name);

}  // namespace tessera
