#include "tessera/base/closest.hpp"

#include <algorithm>
#include <vector>

namespace tessera {

namespace {

/// Counts the letters to insert, delete, replace or swap with a neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> d((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return d[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::string_view closest(std::string_view unknown, std::span<const std::string_view> names) {
  if (unknown.empty() || unknown.size() > 64) return {};
  std::string_view best;
  std::size_t least = std::max<std::size_t>(2, unknown.size() / 3) + 1;
  for (const std::string_view name : names) {
    const auto distance = edit_distance(unknown, name);
    if (distance < least) least = distance, best = name;
  }
  return best;
}

}  // namespace tessera
