#pragma once
// Turns pieces into tokens: the work of each thread.

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/text/chats.hpp"
#include "tessera/text/prepared.hpp"
#include "text/pieces.hpp"

namespace tessera {

/// A piece's tokens.
struct Encoded {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> ends;   ///< of the documents that end in it: tokens of the piece up to there
  std::vector<TokenRun> uncounted;  ///< tokens of the piece that the loss leaves out
  std::vector<BadPlace> bad;        ///< the first ones
  std::int64_t bad_places = 0;      ///< all
  std::int64_t text_bytes = 0;
  std::int64_t conversations = 0, silent_conversations = 0;  ///< in the silent ones nothing counts
};

struct EncodeSettings {
  std::string text_key = "text";
  std::optional<std::int32_t> separator;  ///< after each document
  std::vector<std::int32_t> begin = {};   ///< before each document
  bool checks_utf8 = true;                ///< invalid bytes are reported, and become U+FFFD
  ChatForm chats = {};
  std::string no_separator = {};  ///< why other documents than conversations are refused; empty: they are not
};

class ChatEncoder;

/// Encodes a piece; both encoders belong to the calling thread.
Encoded encode_piece(Piece& piece, const EncodeSettings& settings, Tokenizer::Encoder& encoder,
                     ChatEncoder& chat_encoder);

}  // namespace tessera
