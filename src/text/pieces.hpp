#pragma once
// A corpus in pieces of about 1 MiB, in order. Their borders depend on the files and the tokenizer alone, so a piece's
// number names a place in a file.

#include <cstdint>
#include <exception>
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
    mended      ///< read otherwise than it stands, whatever data.on_error is
  };
  Effect effect = Effect::left_out;
};

struct Piece {
  enum class Kind : std::uint8_t {
    text,       ///< of one document
    lines,      ///< of JSON, a document each
    documents,  ///< decoded; `ends` has their ends in `bytes`
  };
  Kind kind = Kind::text;
  std::size_t file = 0;
  std::int64_t number = 0;      ///< in its file, from 0
  std::int64_t first_line = 1;  ///< of the file
  std::string bytes;
  std::vector<std::size_t> ends;
  std::vector<std::size_t> prompts;  ///< bytes at the start of each of these documents that the loss leaves out
  bool counts = true;                ///< a text that the loss counts
  bool begins_document = true;       ///< a document's first piece
  bool goes_on = false;              ///< a text's piece, cut off from the one before it
  bool ends_document = true;         ///< a text's last piece
  std::vector<BadPlace> bad;         ///< found while reading
  std::int64_t taken = 0;            ///< bytes read of all files up to here
  std::exception_ptr failure;        ///< instead of bytes: reading ends here
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
