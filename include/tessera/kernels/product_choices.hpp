#pragma once
// Which algorithm of its library each kind of matrix product of a GPU runs with. The same algorithms on every rank and
// after a restart mean the same bits: rank 0 chooses, the others are told, and the run keeps the table.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// A library's algorithm for one kind of product, opaque to everybody but the library.
struct ProductChoice {
  std::array<std::uint64_t, 8> algorithm{};
  std::int64_t workspace_bytes = 0;
  std::int64_t possible = 0;  ///< 0: the library has none
  bool operator==(const ProductChoice&) const = default;
};

class ProductChoices {
 public:
  /// Shapes, strides, types and alignments: what the kernels tell kinds of products apart by.
  using Key = std::vector<std::int64_t>;

  /// Null where nothing was chosen yet.
  const ProductChoice* find(const Key& key) const;
  void set(const Key& key, const ProductChoice& choice) { all_[key] = choice; }
  std::size_t size() const { return all_.size(); }

  /// A line for each: numbers of the key, a colon, workspace and algorithm.
  std::string text() const;
  /// The inverse. IoError for anything that text() does not make.
  static ProductChoices parse(const std::string& text);

 private:
  std::map<Key, ProductChoice> all_;
};

/// How a rank's kernels come to their choices.
struct ProductSettings {
  ProductChoices* choices = nullptr;  ///< those that are kept, where new ones go too; outlives the kernels; may be null
  /// Everybody's bytes become rank 0's: called at the first product of a kind, in the order of the calls, which is the
  /// same on all ranks. Empty: a rank alone.
  std::function<void(std::span<std::byte>)> agree;
  bool chooses = true;  ///< whether this is rank 0
  bool times = false;   ///< the fastest of the library's candidates on this GPU, not the one that it puts first
};

}  // namespace tessera
