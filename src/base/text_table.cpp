#include "tessera/base/text_table.hpp"

#include <algorithm>

namespace tessera {

namespace {

/// Counts characters, not bytes: the continuation bytes of UTF-8 are not counted.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

}  // namespace

TextTable::TextTable(const std::vector<std::string>& titles) {
  for (const std::string& title : titles) {
    const bool to_the_right = title.starts_with('>');
    columns_.push_back({title.substr(to_the_right ? 1 : 0), to_the_right});
  }
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = width_of(columns_[c].title);
    for (const auto& [cells, is_line] : rows_) {
      if (c < cells.size() && !is_line) width = std::max(width, width_of(cells[c]));
    }
    widths.push_back(width);
  }
  std::string out;
  auto print = [&](auto cell_of) {
    std::string line = " ";
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string cell = cell_of(c);
      const std::string gap(widths[c] - width_of(cell), ' ');
      line += c == 0 ? " " : "  ";
      line += columns_[c].to_the_right ? gap + cell : cell + gap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  print([&](std::size_t c) { return columns_[c].title; });
  for (const Row& row : rows_) {
    if (row.is_line) {
      out += "  " + row.cells[0] + "\n";
    } else {
      print([&](std::size_t c) { return c < row.cells.size() ? row.cells[c] : std::string(); });
    }
  }
  return out;
}

}  // namespace tessera
