// "Did you mean": the option that an unknown name most likely stands for.

#include <algorithm>
#include <vector>

#include "config/option_table.hpp"

namespace tessera {

namespace {

/// Letters to insert, delete, replace or swap with a neighbour (optimal string alignment).
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

std::string closest_option(std::string_view unknown) {
  if (unknown.size() > 64 || unknown.empty()) return {};
  const auto dot = unknown.find('.');
  const auto key = dot == std::string_view::npos ? unknown : unknown.substr(dot + 1);
  for (const auto& row : option_table()) {  // the beginning of a name
    if (std::string_view(row.name).starts_with(unknown) && dot != std::string_view::npos && !key.empty())
      return row.name;
  }
  for (const auto& row : option_table()) {  // the right key in another section
    if (row.key() == key) return row.name;
  }
  std::string best;
  std::size_t least = std::max<std::size_t>(2, unknown.size() / 3) + 1;
  for (const auto& row : option_table()) {
    const auto distance = edit_distance(unknown, row.name);
    if (distance < least) least = distance, best = row.name;
  }
  return best;
}

}  // namespace tessera
