#include "gpu_emulator/ptx/text.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace ptx {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::int64_t bytes_of_type(std::string_view type, const Statement& s) {
  if (type == ".b8" || type == ".u8" || type == ".s8") return 1;
  if (type == ".b16" || type == ".u16" || type == ".s16" || type == ".f16") return 2;
  if (type == ".b32" || type == ".u32" || type == ".s32" || type == ".f32") return 4;
  if (type == ".b64" || type == ".u64" || type == ".s64" || type == ".f64") return 8;
  refuse(s, "no type");
}

}  // namespace

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_word(std::string_view& text) {
  text = trimmed(text);
  const std::size_t end = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), is_space) - text.begin());
  const std::string_view word = text.substr(0, end);
  text = trimmed(text.substr(end));
  return word;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += (c == '{' || c == '[' || c == '(') ? 1 : (c == '}' || c == ']' || c == ')') ? -1 : 0;
    if (c != ',' || depth != 0) continue;
    parts.push_back(trimmed(text.substr(start, i - start)));
    start = i + 1;
  }
  if (!trimmed(text.substr(start)).empty()) parts.push_back(trimmed(text.substr(start)));
  return parts;
}

void refuse(const Statement& s, const std::string& why) {
  throw std::runtime_error("PTX: " + why + ": \"" + s.text + "\" (source line " + std::to_string(s.line) + ")");
}

std::int64_t integer(std::string_view text, const Statement& s) {
  const bool negative = !text.empty() && text.front() == '-';
  std::string_view digits = negative ? text.substr(1) : text;
  const int base = digits.starts_with("0x") || digits.starts_with("0X") ? 16 : 10;
  if (base == 16) digits.remove_prefix(2);
  if (!digits.empty() && (digits.back() == 'U' || digits.back() == 'u')) digits.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) refuse(s, "no integer");
  return static_cast<std::int64_t>(negative ? 0 - value : value);
}

std::optional<std::uint64_t> immediate(std::string_view text, const Statement& s) {
  if (text.empty()) return std::nullopt;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (error != std::errc() || end != text.data() + text.size()) refuse(s, "no number");
    return bits;
  }
  if (text.front() == '-' || (text.front() >= '0' && text.front() <= '9')) {
    return static_cast<std::uint64_t>(integer(text, s));
  }
  return std::nullopt;
}

Variable variable(std::string_view text, const Statement& s) {
  Variable v;
  std::string_view type;
  while (!text.empty() && trimmed(text).front() == '.') {
    const std::string_view word = take_word(text);
    if (word == ".align") {
      v.alignment = integer(take_word(text), s);
    } else if (word != ".ptr" && word != ".global") {
      type = word;
    }
  }
  const std::size_t bracket = text.find('[');
  v.name = std::string(trimmed(text.substr(0, bracket)));
  const std::int64_t element = bytes_of_type(type, s);
  v.alignment = std::max(v.alignment, element);
  v.bytes = element;
  if (bracket != std::string_view::npos) {
    const std::string_view length = trimmed(text.substr(bracket + 1, text.find(']') - bracket - 1));
    v.bytes = length.empty() ? 0 : element * integer(length, s);
  }
  return v;
}

namespace {

/// Cuts the text into statements: instructions, declarations, headers, labels (with ':'), "{" and "}".
class Cutter {
 public:
  Cutter(std::string_view text, std::vector<std::string>& files) : text_(text), files_(files) {}

  std::vector<Statement> cut() {
    std::vector<Statement> all;
    while (skip()) {
      const char c = text_[at_];
      if (c == '{' || c == '}') {
        all.push_back({std::string(1, c), file_, line_});
        ++at_;
      } else if (c == '.' && of_one_line()) {
        directive();
      } else if (starts(".section")) {  // for debuggers
        at_ = std::min(text_.find('}', at_), text_.size() - 1) + 1;
      } else {
        all.push_back(statement());
      }
    }
    return all;
  }

 private:
  bool starts(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
  bool of_one_line() const {
    return starts(".loc ") || starts(".loc\t") || starts(".file") || starts(".version") || starts(".target") ||
           starts(".address_size");
  }
  /// White space and comments. False at the end.
  bool skip() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (starts("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (starts("/*")) {
        at_ = std::min(text_.find("*/", at_), text_.size() - 2) + 2;
      } else {
        return text_[at_] != '\0';
      }
    }
    return false;
  }
  void directive() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const Statement whole{std::string(text_.substr(at_, end - at_)), file_, line_};
    std::string_view rest = whole.text;
    at_ = end;
    const std::string_view name = take_word(rest);
    if (name == ".loc") {
      file_ = static_cast<int>(integer(take_word(rest), whole));
      line_ = static_cast<int>(integer(take_word(rest), whole));
    } else if (name == ".file") {
      const auto number = static_cast<std::size_t>(integer(take_word(rest), whole));
      if (files_.size() <= number) files_.resize(number + 1);
      const std::size_t open = rest.find('"'), close = rest.find('"', open + 1);
      files_[number] = std::string(rest.substr(open + 1, close - open - 1));
    }
  }
  Statement statement() {
    const bool header = starts(".visible") || starts(".entry") || starts(".func") || starts(".weak");
    std::string text;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (starts("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (c == ';') {
        ++at_;
        return {text, file_, line_};
      }
      if (header && c == '{') return {text, file_, line_};
      ++at_;
      if (c == ':' && std::all_of(text.begin(), text.end(), is_word)) return {text + ":", file_, line_};
      text += is_space(c) ? ' ' : c;
    }
    throw std::runtime_error("PTX: the text ends inside of \"" + text + "\"");
  }

  std::string_view text_;
  std::vector<std::string>& files_;
  std::size_t at_ = 0;
  int file_ = 0, line_ = 0;
};

}  // namespace

std::vector<Statement> cut(std::string_view text, std::vector<std::string>& files) { return Cutter(text, files).cut(); }

}  // namespace ptx
