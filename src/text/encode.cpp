#include "text/encode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/utf8.hpp"
#include "text/chat_encoder.hpp"
#include "text/json_documents.hpp"

namespace tessera {

namespace {

constexpr std::ptrdiff_t kBadShown = 3;  ///< of a piece and an effect

void note_bad(Encoded& out, BadPlace place) {
  ++out.bad_places;
  if (std::ranges::count(out.bad, place.effect, &BadPlace::effect) < kBadShown) out.bad.push_back(std::move(place));
}

/// Notes each run of invalid bytes, with its line.
void check_utf8(std::string_view text, const Piece& piece, Encoded& out) {
  std::int64_t line = piece.first_line;
  std::size_t counted = 0;
  for (std::size_t at = valid_utf8_end(text); at < text.size(); at = valid_utf8_end(text, at)) {
    line += std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                       text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    counted = at;
    note_bad(out, {piece.file, line, fmt::format("byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text[at]))});
    while (at < text.size() && utf8_length(text.substr(at)) == 0) ++at;
  }
}

/// Where a text stands in its document.
struct TextPlace {
  std::size_t file = 0;
  std::int64_t line = 0;
  bool begins_document = true, goes_on = false;
};

/// Encodes text, which the loss leaves out unless it counts, after what a document begins with.
void add_ids(std::string_view text, bool counts, const TextPlace& place, const EncodeSettings& settings,
             Tokenizer::Encoder& encoder, Encoded& out) {
  const std::int64_t begin = std::ssize(out.ids);
  if (place.begins_document) out.ids.insert(out.ids.end(), settings.begin.begin(), settings.begin.end());
  encoder.encode(text, out.ids, place.goes_on);
  if (!counts && std::ssize(out.ids) > begin) out.uncounted.push_back({begin, std::ssize(out.ids)});
  if (const std::string lost = encoder.take_lost(); !lost.empty())
    note_bad(out, {place.file, place.line, lost + " has no token in the tokenizer's vocabulary"});
}

void end_document(const EncodeSettings& settings, Encoded& out) {
  if (!settings.no_separator.empty()) throw UsageError("{}", settings.no_separator);
  if (settings.separator) out.ids.push_back(*settings.separator);
  out.ends.push_back(static_cast<std::int64_t>(out.ids.size()));
}

/// Adds a document of a prompt, which may be empty, and a text. Each is encoded alone: the border lies between tokens.
void add_document(std::string_view prompt, std::string_view text, TextPlace place, const EncodeSettings& settings,
                  Tokenizer::Encoder& encoder, Encoded& out) {
  if (prompt.empty() && text.empty()) return;
  out.text_bytes += static_cast<std::int64_t>(prompt.size() + text.size());
  if (!prompt.empty()) add_ids(prompt, false, place, settings, encoder, out);
  place.begins_document = prompt.empty();
  place.goes_on = !prompt.empty();  // no mark of a text's beginning stands in front of a completion
  if (!text.empty()) add_ids(text, true, place, settings, encoder, out);
  end_document(settings, out);
}

/// Conversations of a piece: documents that nothing stands around. They wait for each other, because every exchange
/// with the process that renders them costs two switches of processes.
class Chats {
 public:
  Chats(const Piece& piece, ChatEncoder& encoder, Encoded& out) : file_(piece.file), encoder_(encoder), out_(out) {}

  void add(std::string conversation, std::int64_t line) {
    bytes_ += conversation.size();
    waiting_.push_back(std::move(conversation)), lines_.push_back(line);
    if (bytes_ >= kTogether) flush();
  }
  /// Appends those that wait. To be called before anything else is added or noted, and at the end.
  void flush() {
    if (waiting_.empty()) return;
    encoder_.ask(waiting_);
    std::ranges::for_each(lines_, [&](std::int64_t line) { take(line); });
    waiting_.clear(), lines_.clear(), bytes_ = 0;
  }

 private:
  static constexpr std::size_t kTogether = 32768;  ///< bytes that are enough

  void take(std::int64_t line) {
    const auto note = [&](const std::string& why, BadPlace::Effect effect) {
      if (!why.empty()) note_bad(out_, {file_, line, why, effect});
    };
    const std::int64_t silent = out_.silent_conversations;
    try {
      note(encoder_.take(out_), BadPlace::Effect::left_out);
    } catch (const UsageError& error) {
      note(error.what(), BadPlace::Effect::stops);
    } catch (const IoError& error) {
      note(error.what(), BadPlace::Effect::fails);
    }
    if (out_.silent_conversations > silent) note("no token of this conversation counts", BadPlace::Effect::mended);
  }

  std::size_t file_;
  ChatEncoder& encoder_;
  Encoded& out_;
  std::vector<std::string> waiting_;
  std::vector<std::int64_t> lines_;
  std::size_t bytes_ = 0;
};

void add_lines(const Piece& piece, const EncodeSettings& settings, Tokenizer::Encoder& encoder, Chats& chats,
               Encoded& out) {
  std::int64_t number = piece.first_line;
  const TakeFinding take = [&](JsonFinding&& found) {
    if (found.kind == FindingKind::chat) return chats.add(std::move(found.text), number);
    chats.flush();
    if (found.kind == FindingKind::document)
      return add_document(found.prompt, found.text, {piece.file, number}, settings, encoder, out);
    const bool is_read = found.kind == FindingKind::mended || found.kind == FindingKind::chosen;
    const auto effect = is_read ? BadPlace::Effect::mended : BadPlace::Effect::left_out;
    note_bad(out, {piece.file, number, found.text, effect});
  };
  const std::string_view all = piece.bytes;
  for (std::size_t at = 0; at < all.size(); ++number) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, end - at);
    if (piece.kind == Piece::Kind::rows && line.starts_with('!')) {
      take({FindingKind::problem, shown(line.substr(1), 200)});
    } else if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      read_json_line(line, settings.text_key, take);
    }
    at = end + 1;
  }
}

void add_text(const Piece& piece, const EncodeSettings& settings, Tokenizer::Encoder& encoder, Encoded& out) {
  if (settings.checks_utf8) check_utf8(piece.bytes, piece, out);
  out.text_bytes += static_cast<std::int64_t>(piece.bytes.size());
  const TextPlace place{piece.file, piece.first_line, piece.begins_document, piece.goes_on};
  add_ids(piece.bytes, piece.counts, place, settings, encoder, out);
  if (piece.ends_document) end_document(settings, out);
}

}  // namespace

Encoded encode_piece(Piece& piece, const EncodeSettings& settings, Tokenizer::Encoder& encoder,
                     ChatEncoder& chat_encoder) {
  Encoded out;
  Chats chats(piece, chat_encoder, out);
  for (BadPlace& place : piece.bad) note_bad(out, std::move(place));
  switch (piece.kind) {
    case Piece::Kind::text:
      add_text(piece, settings, encoder, out);
      break;
    case Piece::Kind::lines:
    case Piece::Kind::rows:
      add_lines(piece, settings, encoder, chats, out);
      break;
    case Piece::Kind::documents: {
      std::size_t begin = 0;
      for (const PieceDocument& one : piece.documents) {
        const std::string_view bytes = std::string_view(piece.bytes).substr(begin, one.end - begin);
        begin = one.end;
        if (one.is_chat) {
          chats.add(std::string(bytes), one.line);
        } else {
          chats.flush();
          add_document(bytes.substr(0, one.prompt), bytes.substr(one.prompt), {piece.file, one.line}, settings, encoder,
                       out);
        }
      }
      break;
    }
  }
  chats.flush();
  return out;
}

}  // namespace tessera
