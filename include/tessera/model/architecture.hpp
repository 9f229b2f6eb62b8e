#pragma once
// A decoder described by options: families (model/family.hpp) are settings of one description, not classes.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/model_sizes.hpp"
#include "tessera/kernels/rotary_table.hpp"

namespace tessera {

enum class Family : std::uint8_t { gpt2, qwen2, llama, qwen3, mistral, gemma3 };
enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class PositionKind : std::uint8_t { learned, rotary };
/// GELU in its tanh form, or a gated unit whose gate goes through SiLU or that GELU (Shazeer 2020).
enum class MlpKind : std::uint8_t { gelu, swiglu, geglu };

/// The rest of a description: a family fixes it, or has a usual value for it.
struct ModelForm {
  Family family{};  ///< the first one
  NormKind norm = NormKind::layer_norm;
  PositionKind positions = PositionKind::learned;
  MlpKind mlp = MlpKind::gelu;
  bool linear_bias = true;        ///< biases on every linear (GPT-2)
  bool qkv_bias = true;           ///< biases on query, key, value (GPT-2, Qwen2)
  bool attention_bias = false;    ///< biases on query, key, value and output (where the model has them)
  bool mlp_bias = false;          ///< biases on the MLP's linears (where the model has them)
  bool head_norms = false;        ///< RMS norms of each head's query and key (Qwen3)
  bool output_norms = false;      ///< norms of what attention and MLP add to the residual stream (Gemma 3)
  bool scaled_embedding = false;  ///< rows of the token table are multiplied by sqrt(width) (Gemma 3)
  bool tied_head = true;          ///< the head reads the token table
  double gain_offset = 0;         ///< a norm's gain is this plus its weight (Gemma 3: 1)
  double norm_epsilon = 1e-5;
  std::int64_t query_scalar = 0;  ///< scores are divided by its root (Gemma 3); 0: by that of the head's width
  double rope_theta = 10000.0;
  double rope_local_theta = 0;  ///< of layers with a window, whose positions are not scaled; 0: as in all layers
  std::int64_t window = 0;  ///< keys that a query sees in layers with a window, its own among them; 0: there are none
  std::int64_t full_every = 0;  ///< every n-th layer has no window (Gemma 3); 0: all have one
  bool operator==(const ModelForm&) const = default;
};

/// Low-rank adapters of linears of blocks (Hu et al. 2021): W x becomes W x + scale() B (A dropout(x)), with A
/// [rank, in] and B [out, rank]. They train, and nothing else does.
struct Adapters {
  std::int64_t rank = 0;  ///< 0: there are none
  double alpha = 0;
  double dropout = 0;                     ///< of their inputs, each with a mask of its own
  bool is_rank_stabilized = false;        ///< divided by the rank's root, not by the rank (Kalajdzievski 2023)
  std::vector<std::string> targets = {};  ///< modules as a block names them ("self_attn.q_proj"), in their order
  bool on() const { return rank > 0; }
  double scale() const;
  bool operator==(const Adapters&) const = default;
};

struct Architecture : ModelSizes, ModelForm {
  RopeScaling rope_scaling = {};
  std::vector<bool> full_layers = {};  ///< per layer, over and over: it has no window; empty: see full_every
  double dropout = 0.0;                ///< embedding, attention and residual dropout
  Adapters adapters = {};
  std::int64_t head_width() const { return head_dim > 0 ? head_dim : width / heads; }
  std::int64_t query_width() const { return heads * head_width(); }
  std::int64_t key_width() const { return kv_heads * head_width(); }  ///< of values too
  bool sees_all(std::int64_t layer) const {                           ///< has no window
    if (window == 0) return true;
    return full_layers.empty() ? full_every > 0 && (layer + 1) % full_every == 0
                               : full_layers[static_cast<std::size_t>(layer) % full_layers.size()];
  }
  bool is_gated() const { return mlp != MlpKind::gelu; }
  bool operator==(const Architecture&) const = default;
};

std::string name_of(Family family);
std::string name_of(MlpKind mlp);
/// "18 layers (15 with a window of 512), width 640, 4 heads, vocabulary 262144"
std::string describe(const Architecture& architecture);

/// "rank 8, alpha 16, on self_attn.q_proj, self_attn.v_proj"
std::string describe(const Adapters& adapters);

/// Returns the shape of a named preset (gpt2-124m, qwen2-1.5b, ...); UsageError naming the known ones.
Architecture preset(const std::string& name);
std::vector<std::string> preset_names();

/// UsageError naming the option when sizes are impossible (width not divisible by heads, heads by kv_heads, ...).
void validate(const Architecture& architecture);

}  // namespace tessera
