#pragma once
// Columns of text, as wide as their widest cell.

#include <string>
#include <vector>

namespace tessera {

class TextTable {
 public:
  /// A column whose title begins with ">", which is not part of it, is aligned to the right.
  explicit TextTable(const std::vector<std::string>& titles);

  /// Adds a row. It has at most as many cells as there are columns; missing ones are empty.
  void row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }
  /// Adds a row by itself, not part of the columns.
  void line(const std::string& text) { rows_.push_back({{text}, true}); }

  /// Returns every line indented by two and ended by a newline; cells may be UTF-8.
  std::string text() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_line = false;
  };
  struct Column {
    std::string title;
    bool to_the_right = false;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace tessera
