#pragma once
// Division of ranges into tasks: by their length alone, never by the number of threads.

#include <algorithm>
#include <cstdint>

#include "tessera/base/math.hpp"

namespace tessera {

struct Tile {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

class Tiling {
 public:
  /// Makes pieces of `size`, the last one shorter.
  static Tiling of_size(std::int64_t length, std::int64_t size) { return Tiling(length, size); }
  /// Makes as few pieces of at most about `target` as possible, equally long up to rounding to `grain`.
  static Tiling balanced(std::int64_t length, std::int64_t target, std::int64_t grain) {
    const std::int64_t pieces = std::max<std::int64_t>(1, ceil_div(length, target));
    return Tiling(length, round_up(std::max<std::int64_t>(1, ceil_div(length, pieces)), grain));
  }

  std::int64_t count() const { return count_; }
  std::int64_t largest() const { return std::min(size_, length_); }
  Tile operator[](std::int64_t i) const { return {i * size_, std::min(length_, (i + 1) * size_)}; }

 private:
  Tiling(std::int64_t length, std::int64_t size) : length_(length), size_(size), count_(ceil_div(length, size)) {}
  std::int64_t length_, size_, count_;
};

}  // namespace tessera
