#pragma once
// Documents out of JSON, read by events: no tree is built, and memory is that of one document.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "text/byte_stream.hpp"

namespace tessera {

/// The findings of a reader of JSON: a document's text, or what is wrong with an element or the whole.
struct JsonEvents {
  std::function<void(std::string&)> document;  ///< may take the text away
  std::function<void(const std::string& why)> problem;
  std::function<void(const std::string& why)> fault;  ///< of syntax: nothing after it is read
  /// A document of two texts, of which the loss counts the second: "prompt" and "completion" in place of the key. Both
  /// may be taken away. If it is empty, such an object is a problem.
  std::function<void(std::string& prompt, std::string& completion)> pair = {};
  /// Surrogates without their other half became U+FFFD.
  std::function<void(const std::string& what)> mended = {};
  /// A conversation: an object, as JSON, of the values of "messages", "conversations", or "prompt" and "completion" as
  /// arrays, and of "system", "tools" and "chat_template_kwargs". It may be taken away. Needed where `pair` is.
  std::function<void(std::string& conversation)> chat = {};
};

/// Reads one line: an object whose `key` is the text, of a pair, or of a conversation. Calls one of the first five
/// events once.
void read_json_line(std::string_view line, const std::string& key, const JsonEvents& events);

/// Returns whether a text that begins so has an object per line: the first line is one, and another line follows.
/// Nothing if more of the text has to be known.
std::optional<bool> begins_with_json_lines(std::string_view start);

/// Reads a file: such an object, or an array of them. Ends at the first fault of syntax, after reporting it. `line` is
/// kept at the number of the line that is being read, from 1. UsageError for one text longer than `longest` bytes. The
/// file's first bytes, `start`, were read from `bytes` before.
void read_json_file(std::string_view start, ByteStream& bytes, const std::string& key, std::int64_t longest,
                    std::int64_t& line, const JsonEvents& events);

}  // namespace tessera
