#pragma once
// Which source a sample of a mixture comes from: a pure function of the sample's number.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tessera {

/// Samples 0, 1, 2, ... of several sources by their weights. A binary tree splits the samples: of the n first samples
/// at a node, floor(n w) go to its left half, of weight w. So any stretch of samples has each source's share within
/// about log2(sources) samples, and no rank keeps a state.
///
/// Where samples hold unequal numbers of tokens, the halves of a node share its tokens instead: a sample goes to the
/// left half if that then has at most its part w of them. Any samples have each source's share of their tokens within
/// about log2(sources) samples, and samples of equal length are drawn as above.
class Mixture {
 public:
  /// Returns how many tokens (> 0) sample number `index` of a source holds.
  using SampleTokens = std::function<std::int64_t(std::size_t source, std::int64_t index)>;

  /// Weights are not negative, and at least one is above 0. With `tokens` the first look at a sample goes through all
  /// before it, which takes some tenths of a microsecond and two bytes for each.
  explicit Mixture(const std::vector<double>& weights, SampleTokens tokens = {});

  /// A sample as the sample number `index` of a source.
  struct Draw {
    std::size_t source = 0;
    std::int64_t index = 0;
  };
  Draw operator()(std::int64_t sample) const;
  /// Returns how many of the first `samples` are of a source.
  std::int64_t count(std::size_t source, std::int64_t samples) const;
  std::size_t size() const { return left_.size(); }

 private:
  class ByTokens;

  /// The left half of sources [first, end) is [first, middle).
  static std::size_t middle(std::size_t first, std::size_t end) { return first + (end - first) / 2; }
  /// Goes from the tree's root to a source, with the samples before `samples` at each node.
  template <class GoesLeft>
  Draw descend(std::int64_t samples, const GoesLeft& goes_left) const;
  void split(const std::vector<double>& weights, std::size_t first, std::size_t end);

  std::vector<std::uint64_t> left_;  ///< by a node's middle: the left half's share, times 2^64
  std::shared_ptr<ByTokens> by_tokens_;
};

}  // namespace tessera
