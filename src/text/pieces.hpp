#pragma once
// A corpus in pieces of about 1 MiB, in order. Their borders depend on the files and the tokenizer alone, so a piece's
// number names a place in a file.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/tokenizer/tokenizer.hpp"
#include "text/source_files.hpp"

namespace tessera {

/// Something in the corpus that is not read as it stands.
struct BadPlace {
  std::size_t file = 0;   ///< in the list of sources
  std::int64_t line = 0;  ///< from 1; 0: not known
  std::string why;
  enum class Effect : std::uint8_t {
    left_out,   ///< with data.on_error = skip
    ends_file,  ///< the rest of the file cannot be read
    mended,     ///< read otherwise than it stands, or without anything that counts, whatever data.on_error is
    stops,      ///< cannot be read with these options, whatever data.on_error is
    fails       ///< could not be read this time
  };
  Effect effect = Effect::left_out;
};

/// A decoded document of a piece.
struct PieceDocument {
  std::size_t end = 0;     ///< in the piece's bytes
  std::size_t prompt = 0;  ///< bytes at its start that the loss leaves out
  std::int64_t line = 0;
  bool is_chat = false;  ///< a conversation as JSON
};

struct Piece {
  enum class Kind : std::uint8_t {
    text,       ///< of one document
    lines,      ///< of JSON, a document each
    rows,       ///< the same of a table; "!CLAUSE" in place of a row that cannot be read
    documents,  ///< decoded, one behind the other
  };
  Kind kind = Kind::text;
  std::size_t file = 0;
  std::int64_t number = 0;      ///< in its file, from 0
  std::int64_t first_line = 1;  ///< of the file
  std::string bytes;
  std::vector<PieceDocument> documents;
  bool counts = true;           ///< a text that the loss counts
  bool begins_document = true;  ///< a document's first piece
  bool goes_on = false;         ///< a text's piece, cut off from the one before it
  bool ends_document = true;    ///< a text's last piece
  std::vector<BadPlace> bad;    ///< found while reading
  std::int64_t taken = 0;       ///< bytes read of all files up to here
};

struct PieceSettings {
  std::string text_key = "text";
  std::int64_t piece = std::int64_t{1} << 20;    ///< bytes
  std::int64_t longest = std::int64_t{1} << 30;  ///< bytes that may have to lie in one piece
};

/// A place between two pieces.
struct PiecePlace {
  std::size_t file = 0;
  std::int64_t pieces = 0;  ///< of that file that lie before
  bool operator==(const PiecePlace&) const = default;
};

/// Reads the files from `from` on, and passes each piece on. UsageError for a file that cannot be cut; errors of
/// open_bytes().
void read_pieces(const SourceList& sources, const Tokenizer& tokenizer, const PieceSettings& settings, PiecePlace from,
                 const std::function<void(Piece&&)>& pass);

}  // namespace tessera
