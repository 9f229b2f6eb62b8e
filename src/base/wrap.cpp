#include "tessera/base/wrap.hpp"

namespace tessera {

namespace {

/// Returns whether a line may end before line[at].
bool may_break(std::string_view line, std::size_t at) {
  if (line[at - 1] == '|') return true;
  if (line[at] != ' ' || line[at - 1] == ' ') return false;
  return line[at - 1] != '=' && line.substr(at + 1, 1) != "=";
}

/// Returns the last place, behind `indent`, at which a line can be broken within `width`; else the first; 0: none.
std::size_t place_to_break(std::string_view line, std::size_t indent, std::size_t width) {
  std::size_t place = 0;
  for (std::size_t at = indent + 1; at < line.size() && (at <= width || place == 0); ++at) {
    if (may_break(line, at)) place = at;
  }
  return place;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end);
    for (std::size_t at = 0; line.size() > width && (at = place_to_break(line, indent, width)) > 0;) {
      out += line.substr(0, at) + "\n";
      const std::size_t rest = line.find_first_not_of(' ', at);
      line = std::string(indent, ' ') + (rest == std::string::npos ? "" : line.substr(rest));
    }
    out += line;
    if (!text.empty()) out += '\n', text.remove_prefix(1);
  }
  return out;
}

}  // namespace tessera
