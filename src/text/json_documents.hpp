#pragma once
// Documents out of JSON, read by events: no tree is built, and memory is that of one document.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "text/byte_stream.hpp"

namespace tessera {

enum class FindingKind : std::uint8_t {
  document,
  chat,     ///< a conversation: an object, as JSON, of the values of "messages", "conversations", or "prompt" and
            ///< "completion" as arrays, and of "system", "tools" and "chat_template_kwargs"
  problem,  ///< of an element
  fault,    ///< of syntax: nothing after it is read
  mended,   ///< surrogates without their other half became U+FFFD
  chosen    ///< the next object is documents of several kinds, one of which is taken
};

/// What a reader of JSON found.
struct JsonFinding {
  FindingKind kind;
  std::string text;         ///< of the document, the conversation, or a clause
  std::string prompt = {};  ///< of a document of two texts, "prompt" and "completion" in place of the key
};
using TakeFinding = std::function<void(JsonFinding&&)>;

/// Reads one line: an object whose `key` is the text, of a pair, or of a conversation. Finds one of these or a problem,
/// after what was mended.
void read_json_line(std::string_view line, const std::string& key, const TakeFinding& take);

/// Returns whether a text that begins so has an object per line: the first line is one, and another line follows.
/// Nothing if more of the text has to be known.
std::optional<bool> begins_with_json_lines(std::string_view start);

/// Reads a file: such an object, or an array of them. Ends at the first fault of syntax, after reporting it. `line` is
/// kept at the number of the line that is being read, from 1. UsageError for one text longer than `longest` bytes. The
/// file's first bytes, `start`, were read from `bytes` before.
void read_json_file(std::string_view start, ByteStream& bytes, const std::string& key, std::int64_t longest,
                    std::int64_t& line, const TakeFinding& take);

}  // namespace tessera
