#pragma once
// memory.checkpoint: which halves of which blocks drop their saved values and recompute them before their backward.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct MemoryOptions;

/// Halves of blocks whose saved values are recomputed.
struct Recomputation {
  bool attention = false, mlp = false;    ///< halves of the blocks below; neither: nothing is recomputed
  std::int64_t share = 1, of = 1;         ///< `share` of every `of` blocks, evenly spread
  std::vector<std::int64_t> listed = {};  ///< these blocks instead, ascending; empty: by share

  /// Both halves of every block.
  static Recomputation all_blocks() { return {true, true, 1, 1, {}}; }
  bool is_any() const { return attention || mlp; }
  bool has_all_mlps() const { return mlp && share == of && listed.empty(); }
  bool is_all() const { return attention && has_all_mlps(); }
  /// Returns whether a block is one of those.
  bool has_block(std::int64_t block) const;
  bool operator==(const Recomputation&) const = default;
};

/// Returns what memory.checkpoint asks for: none, all blocks, or what its two companions name. UsageError for texts
/// that these do not accept. `fit` must have been decided.
Recomputation recomputation_of(const MemoryOptions& options);

/// Returns options that name a recomputation.
MemoryOptions options_of(const Recomputation& recomputation, MemoryOptions options);

/// Returns "none", "block", "mlp", "attention of 1/2 of the blocks", "attention and mlp of blocks 0,3".
std::string describe(const Recomputation& recomputation);

/// UsageError for a listed block that a model of `layers` blocks does not have.
void require_blocks(const Recomputation& recomputation, std::int64_t layers);

}  // namespace tessera
