#pragma once
// The sizes of a model: one row each, from its option to its bound.

#include <cstdint>

namespace tessera {

/// As options have them: 0 stands for the preset's size, or for what the row says.
struct ModelSizes {
  std::int64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0, width = 0, ffn_width = 0, vocab = 0, context = 0;
  bool operator==(const ModelSizes&) const = default;
};

struct ModelSize {
  const char* option;  ///< behind "model."
  std::int64_t ModelSizes::*field;
  std::int64_t largest;
  const char* help;
  const char* rule = nullptr;  ///< gives the size where neither option nor preset does
  std::int64_t least = 1;      ///< of a model
};

inline constexpr ModelSize kModelSizes[] = {
    {"layers", &ModelSizes::layers, 4096, "blocks"},
    {"heads", &ModelSizes::heads, 1024, "query heads"},
    {"kv_heads", &ModelSizes::kv_heads, 1024, "key/value heads", "as many as heads"},
    {"head_dim", &ModelSizes::head_dim, 256, "width of a head, in families that have one of its own", "width / heads",
     0},
    {"width", &ModelSizes::width, 65536, "width of the residual stream"},
    {"ffn_width", &ModelSizes::ffn_width, 1 << 20, "hidden width of the MLP", "4 x width"},
    {"vocab", &ModelSizes::vocab, (std::int64_t{1} << 31) - 1, "size of the vocabulary"},
    {"context", &ModelSizes::context, 1 << 24, "longest sequence, in tokens"},
};

}  // namespace tessera
