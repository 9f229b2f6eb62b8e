#pragma once
// Conversations as tokens, with those that the loss counts.

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/encode.hpp"

namespace tessera {

/// One thread's encoder of conversations. Its helper process starts with the first of them.
class ChatEncoder {
 public:
  /// All three must outlive it.
  ChatEncoder(const ChatForm& form, const Tokenizer& tokenizer, Tokenizer::Encoder& encoder)
      : form_(form), tokenizer_(tokenizer), encoder_(encoder), special_ids_(tokenizer.special_ids()) {}

  /// Asks for conversations, given as JSON, which take() appends, one at each call.
  void ask(std::span<const std::string> conversations);
  /// Appends the next conversation as a document. Returns why it could not, as a clause; empty if it did. UsageError
  /// without a template or what renders it; IoError if that fails.
  std::string take(Encoded& out);

 private:
  const ChatForm& form_;
  const Tokenizer& tokenizer_;
  Tokenizer::Encoder& encoder_;
  std::vector<std::int32_t> special_ids_;
  std::optional<ChatRenderer> renderer_;
  std::exception_ptr failure_;  ///< of its helper
};

/// Returns for each of the ids, which `encoder` made of all of a text, whether all of its characters lie in what
/// counts. `special`: sorted ids.
std::vector<bool> counted_tokens(const RenderedChat& chat, const std::vector<std::int32_t>& ids,
                                 const std::vector<std::int32_t>& special, const Tokenizer& tokenizer,
                                 Tokenizer::Encoder& encoder);

}  // namespace tessera
