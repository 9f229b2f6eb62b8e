#include "text/json_documents.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "text/json_handler.hpp"
#include "text/python_json.hpp"

namespace tessera {

namespace {

/// Returns "1 surrogate without its other half became U+FFFD".
std::string about_surrogates(std::int64_t count) {
  return counted(count, "surrogate") + " without the other half became U+FFFD";
}

/// A stream as the parser reads it: byte by byte, once.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  struct Source {
    ByteStream& bytes;
    std::int64_t& line;
    std::vector<char> block = std::vector<char>(std::size_t{1} << 16);
    std::size_t at = 0, size = 0, held = 0;  ///< of `held` bytes the first `size` are rewritten
    std::int64_t since_event = 0, longest;
    PythonJson python = {};

    bool ended() {
      if (at < size) return false;
      std::size_t got = 0;
      do {
        std::copy(block.begin() + static_cast<std::ptrdiff_t>(size), block.begin() + static_cast<std::ptrdiff_t>(held),
                  block.begin());
        held -= size;
        got = bytes.read(block.data() + held, block.size() - held);
        held += got;
        size = python.rewrite(std::span(block).first(held), got == 0);
        since_event += static_cast<std::int64_t>(got);
        if (since_event > longest) throw refusal("one value has more than {} bytes", longest);
      } while (size == 0 && got > 0);
      at = 0;
      return size == 0;
    }
  };

  ByteIterator() = default;
  explicit ByteIterator(Source& source) : source_(&source) {}
  reference operator*() const { return source_->block[source_->at]; }
  ByteIterator& operator++() {
    source_->line += source_->block[source_->at] == '\n' ? 1 : 0;
    ++source_->at;
    return *this;
  }
  /// Two are equal if both have ended. The one at the end has no source.
  bool operator==(const ByteIterator& other) const { return has_ended() == other.has_ended(); }

 private:
  bool has_ended() const { return source_ == nullptr || source_->ended(); }
  Source* source_ = nullptr;
};

}  // namespace

void read_json_line(std::string_view line, const std::string& key, const TakeFinding& take) {
  PythonJson python;
  std::string rewritten;
  if (PythonJson::may_need(line)) {
    rewritten = line;
    python.rewrite(rewritten, true);
    line = rewritten;
  }
  std::optional<JsonFinding> found;  // the last: a fault after the object refuses the line with it
  std::optional<JsonFinding> chosen;
  const TakeFinding keep = [&](JsonFinding&& one) {
    (one.kind == FindingKind::chosen ? chosen : found) = std::move(one);
  };
  JsonHandler handler(key, false, keep);
  nlohmann::json::sax_parse(line.begin(), line.end(), &handler);
  TESSERA_ASSERT(found, "a line of JSON has a text or a fault");
  if (found->kind == FindingKind::fault) found->kind = FindingKind::problem;
  if (found->kind != FindingKind::problem && python.surrogates() > 0)
    take({FindingKind::mended, about_surrogates(python.surrogates())});
  if (found->kind != FindingKind::problem && chosen) take(std::move(*chosen));
  take(std::move(*found));
}

void read_json_file(std::string_view start, ByteStream& bytes, const std::string& key, std::int64_t longest,
                    std::int64_t& line, const TakeFinding& take) {
  ByteIterator::Source source{.bytes = bytes, .line = line, .longest = longest};
  source.block.resize(std::max(source.block.size(), start.size()));
  std::ranges::copy(start, source.block.begin());
  source.held = start.size(), source.since_event = std::ssize(start);
  source.size = source.python.rewrite(std::span(source.block).first(source.held), false);
  line = 1;
  if (source.ended()) return;  // an empty file has no documents
  const TakeFinding count = [&](JsonFinding&& one) { source.since_event = 0, take(std::move(one)); };
  JsonHandler handler(key, true, count);
  nlohmann::json::sax_parse(ByteIterator(source), ByteIterator(), &handler);
  if (const std::int64_t surrogates = source.python.surrogates(); surrogates > 0)
    take({FindingKind::mended, about_surrogates(surrogates)});
}

std::optional<bool> begins_with_json_lines(std::string_view start) {
  constexpr std::string_view blank = " \t\r", any_blank = " \t\r\n";
  std::size_t at = start.find_first_not_of(any_blank);
  if (at == std::string_view::npos) return std::nullopt;
  if (start[at] != '{') return false;
  int depth = 0;
  bool in_string = false;
  do {
    const char c = start[at];
    if (c == '\n') return false;
    if (in_string && c == '\\') {
      ++at;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      depth += (c == '{' || c == '[') ? 1 : (c == '}' || c == ']') ? -1 : 0;
    }
    if (++at >= start.size()) return std::nullopt;
  } while (depth > 0);
  at = start.find_first_not_of(blank, at);
  if (at == std::string_view::npos) return std::nullopt;
  if (start[at] != '\n') return false;
  if (start.find_first_not_of(any_blank, at) == std::string_view::npos) return std::nullopt;
  return true;
}

}  // namespace tessera
