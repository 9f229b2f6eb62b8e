#include "text/pieces.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/corpus.hpp"
#include "text/byte_stream.hpp"
#include "text/json_documents.hpp"
#include "text/row_stream.hpp"

namespace tessera {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
/// The text after a cut is known this far: a token that begins before the cut does not reach so far beyond it.
constexpr std::size_t kLookAhead = std::size_t{1} << 16;

/// Bytes that are asked for at a time.
constexpr std::size_t kStep = std::size_t{1} << 16;

std::int64_t line_ends(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

/// Reads one file.
class FilePieces {
 public:
  FilePieces(const SourceFile& file, std::size_t index, const Tokenizer& tokenizer, const PieceSettings& settings,
             std::unique_ptr<ByteStream> bytes, std::int64_t taken_before, std::int64_t passed_over,
             const std::function<void(Piece&&)>& pass)
      : file_(file),
        index_(index),
        tokenizer_(tokenizer),
        settings_(settings),
        taken_before_(taken_before),
        passed_over_(passed_over),
        pass_(pass),
        bytes_(std::move(bytes)) {}

  void read() {
    read_documents();
    const std::string note = bytes_->note();
    if (note.empty()) return;
    Piece piece = empty_documents();
    piece.bad.push_back({index_, 0, note, BadPlace::Effect::mended});
    pass(std::move(piece));
  }

 private:
  void read_documents() {
    switch (file_.kind) {
      case SourceKind::text:
        return read_text();
      case SourceKind::json_lines:
        return read_lines(Piece::Kind::lines);
      case SourceKind::rows:
        return read_lines(Piece::Kind::rows);
      case SourceKind::json:
        return holds_lines() ? read_lines(Piece::Kind::lines) : read_json();
      case SourceKind::tokens:
        break;
    }
    throw InternalError("{} holds tokens", file_.path.string());
  }

  /// Reads on until the buffer holds `wanted` bytes, no more, or the file has ended. So cuts do not depend on how a
  /// stream hands out its bytes.
  void fill(std::size_t wanted) {
    while (!ended_ && buffer_.size() < wanted) {
      const std::size_t before = buffer_.size();
      buffer_.resize(std::min(wanted, before + kStep));  // room is cleared: a small file needs little
      const std::size_t got = bytes_->read(buffer_.data() + before, buffer_.size() - before);
      buffer_.resize(before + got);
      ended_ = got == 0;
      if (at_start_ && buffer_.size() >= kByteOrderMark.size()) drop_mark();
    }
  }

  void drop_mark() {
    at_start_ = false;
    refuse_utf16(file_.path, buffer_);
    if (buffer_.starts_with(kByteOrderMark)) buffer_.erase(0, kByteOrderMark.size()), offset_ += 3;
  }

  /// Passes the first `size` bytes of the buffer on.
  void cut(Piece::Kind kind, std::size_t size, bool ends_document) {
    Piece piece;
    piece.kind = kind;
    piece.first_line = line_;
    piece.begins_document = begins_;
    piece.goes_on = !begins_;
    piece.ends_document = ends_document;
    begins_ = ends_document;
    if (size == buffer_.size()) {
      piece.bytes.swap(buffer_);
      buffer_.clear();
    } else {
      piece.bytes.assign(buffer_, 0, size);
      buffer_.erase(0, size);
    }
    line_ += line_ends(piece.bytes);
    offset_ += static_cast<std::int64_t>(size);
    pass(std::move(piece));
  }

  void pass(Piece&& piece) {
    piece.file = index_;
    piece.number = number_++;
    piece.taken = taken_before_ + bytes_->taken();
    if (piece.number >= passed_over_) pass_(std::move(piece));
  }

  void require_cuttable(std::size_t size, const char* what) const {
    if (static_cast<std::int64_t>(size) < settings_.longest) return;
    throw refusal("{}: from byte {} on, {} bytes {}", file_.path.string(), offset_, size, what)
        .use("shorter documents, or other text");
  }

  void read_text() {
    const auto piece = static_cast<std::size_t>(settings_.piece);
    for (;;) {
      fill(2 * piece + kLookAhead);
      if (buffer_.empty()) return;
      std::size_t known = buffer_.size();
      std::size_t at = known;
      while (buffer_.size() > 2 * piece) {
        at = tokenizer_.cut_at_or_after(buffer_, piece);
        known = buffer_.size();
        if (ended_ || at + kLookAhead <= known) break;
        require_cuttable(known, "have no place where text may be cut");
        fill(2 * known);
        at = known = buffer_.size();
      }
      at = std::min(at, known);
      cut(Piece::Kind::text, at, ended_ && at == known);
    }
  }

  void read_lines(Piece::Kind kind) {
    const auto piece = static_cast<std::size_t>(settings_.piece);
    for (;;) {
      fill(piece);
      if (buffer_.empty()) return;
      std::size_t searched = 0;
      std::size_t end = buffer_.rfind('\n');
      while (end == std::string::npos && !ended_) {
        searched = buffer_.size();
        require_cuttable(searched, "are in one line");
        fill(2 * searched);
        end = buffer_.rfind('\n');
        TESSERA_ASSERT(end == std::string::npos || end >= searched, "a line's end was overlooked");
      }
      cut(kind, ended_ || end == std::string::npos ? buffer_.size() : end + 1, true);
    }
  }

  /// Returns whether a file called .json holds an object per line, as those of C4 do. Its first line is in the buffer.
  bool holds_lines() {
    for (std::size_t wanted = kStep;; wanted *= 2) {
      fill(wanted);
      if (const auto known = begins_with_json_lines(buffer_)) return *known;
      if (ended_ || static_cast<std::int64_t>(wanted) >= settings_.longest) return false;
    }
  }

  void read_json() {
    Piece piece = empty_documents();
    std::int64_t line = 1;
    const auto pass_full = [&](bool all) {
      if (static_cast<std::int64_t>(piece.bytes.size()) < settings_.piece && !all) return;
      if (!piece.documents.empty() || !piece.bad.empty()) pass(std::move(piece));
      piece = empty_documents();
    };
    const auto add = [&](const std::string& prompt, const std::string& text) {
      if (static_cast<std::int64_t>(prompt.size() + text.size()) > 2 * settings_.piece) {
        pass_full(true);
        pass_long(prompt, line, false, true, text.empty());
        return pass_long(text, line, true, prompt.empty(), true);
      }
      piece.bytes += prompt;
      piece.bytes += text;
      if (!prompt.empty() || !text.empty()) piece.documents.push_back({piece.bytes.size(), prompt.size(), line});
      pass_full(false);
    };
    const auto take = [&](JsonFinding&& found) {
      using Effect = BadPlace::Effect;
      switch (found.kind) {
        case FindingKind::document:
          return add(found.prompt, found.text);
        case FindingKind::chat:
          piece.bytes += found.text;
          piece.documents.push_back({piece.bytes.size(), 0, line, true});
          return pass_full(false);
        case FindingKind::problem:
          piece.bad.push_back({index_, line, found.text});
          return pass_full(piece.bad.size() >= 1000);
        case FindingKind::fault:
          return piece.bad.push_back({index_, line, found.text, Effect::ends_file});
        case FindingKind::chosen:
          return piece.bad.push_back({index_, line, found.text, Effect::mended});
        case FindingKind::mended:
          return piece.bad.push_back({index_, 0, found.text, Effect::mended});
      }
    };
    try {
      read_json_file(buffer_, *bytes_, settings_.text_key, settings_.longest, line, take);
    } catch (const UsageError& error) {
      throw UsageError("{}:{}: {}", file_.path.string(), line, error.what());
    }
    pass_full(true);
  }

  static Piece empty_documents() {
    Piece piece;
    piece.kind = Piece::Kind::documents;
    return piece;
  }

  /// Passes a long document on in pieces, each short enough for one thread; or a prompt of one, which does not count.
  void pass_long(const std::string& text, std::int64_t line, bool counts, bool begins_document, bool ends_document) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const auto wanted = static_cast<std::size_t>(settings_.piece);
      const std::size_t at = rest.size() > 2 * wanted ? tokenizer_.cut_at_or_after(rest, wanted) : rest.size();
      Piece piece;
      piece.first_line = line;
      piece.bytes = rest.substr(0, at);
      rest.remove_prefix(piece.bytes.size());
      piece.counts = counts;
      piece.goes_on = rest.size() + piece.bytes.size() < text.size();
      piece.begins_document = begins_document && !piece.goes_on;
      piece.ends_document = ends_document && rest.empty();
      pass(std::move(piece));
    }
  }

  const SourceFile& file_;
  std::size_t index_;
  const Tokenizer& tokenizer_;
  const PieceSettings& settings_;
  std::int64_t taken_before_, passed_over_;
  const std::function<void(Piece&&)>& pass_;
  std::unique_ptr<ByteStream> bytes_;
  std::string buffer_;
  bool ended_ = false, at_start_ = true, begins_ = true;
  std::int64_t number_ = 0, line_ = 1, offset_ = 0;
};

}  // namespace

void read_pieces(const SourceList& sources, const Tokenizer& tokenizer, const PieceSettings& settings, PiecePlace from,
                 const std::function<void(Piece&&)>& pass) {
  std::int64_t taken = 0;
  const auto is_table = [](const SourceFile& file) { return file.kind == SourceKind::rows; };
  std::optional<RowReader> tables;  // first, so that what is missing is said before all else is read
  if (const auto first = std::ranges::find_if(sources.files, is_table); first != sources.files.end())
    tables.emplace(first->path);
  for (std::size_t i = 0; i < sources.files.size(); ++i) {
    const SourceFile& file = sources.files[i];
    if (i >= from.file && (file.state.size > 0 || is_table(file))) {
      auto bytes = is_table(file) ? tables->open(file, settings.text_key) : open_bytes(file);
      const std::int64_t passed_over = i == from.file ? from.pieces : 0;
      FilePieces(file, i, tokenizer, settings, std::move(bytes), taken, passed_over, pass).read();
    }
    taken += file.state.size;
  }
}

}  // namespace tessera
