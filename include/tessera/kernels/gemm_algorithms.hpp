#pragma once
// The library algorithms of a GPU's matmuls, by kind. Rank 0 chooses and tells the others, and the run keeps the table,
// because the same algorithms on every rank and after a restart mean the same bits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// A library's algorithm for one kind of matmul, opaque outside of the library.
struct GemmAlgorithm {
  std::array<std::uint64_t, 8> algorithm{};
  std::int64_t workspace_bytes = 0;
  std::int64_t possible = 0;  ///< 0: the library has none
  bool operator==(const GemmAlgorithm&) const = default;
};

class GemmAlgorithms {
 public:
  /// Shapes, strides, types and alignments: they distinguish kinds of matmuls.
  using Key = std::vector<std::int64_t>;

  /// Returns null where nothing was chosen yet.
  const GemmAlgorithm* find(const Key& key) const;
  void set(const Key& key, const GemmAlgorithm& choice) { all_[key] = choice; }
  std::size_t size() const { return all_.size(); }

  /// Writes a line for each: numbers of the key, a colon, workspace and algorithm.
  std::string text() const;
  /// Parses that text. IoError for anything that text() does not make.
  static GemmAlgorithms parse(const std::string& text);

 private:
  std::map<Key, GemmAlgorithm> all_;
};

/// Where a rank's table of algorithms comes from.
enum class AlgorithmSource : std::uint8_t {
  kept,   ///< by the run's earlier part, if any; what it lacks, or cannot run here, is chosen
  timed,  ///< made now, by timing the library's candidates even if the run is deterministic
  given   ///< a file (run.algorithms); what it lacks, or cannot run here, is an error
};

/// How a rank's kernels select algorithms.
struct GemmSettings {
  GemmAlgorithms* choices = nullptr;  ///< kept choices, to which new ones are added; outlives the kernels; may be null
  /// Replaces all ranks' bytes by rank 0's. Called at the first matmul of a kind, in the order of the calls, which is
  /// the same on all ranks. Empty: a single rank.
  std::function<void(std::span<std::byte>)> agree;
  bool chooses = true;  ///< whether this is rank 0
  bool times = false;  ///< selects the fastest of the library's candidates on this GPU, not the one that it ranks first
  bool only_kept = false;       ///< a kind that the table lacks, or whose algorithm the library refuses, is an error
  bool rounds_to_tf32 = false;  ///< fp32 factors go through tensor cores with 10 bits of mantissa; sums stay fp32
};

}  // namespace tessera
