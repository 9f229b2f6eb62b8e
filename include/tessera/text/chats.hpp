#pragma once
// Conversations as text: a chat template, rendered by Jinja2 in a helper process (helpers/render_chats.py).

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// How conversations become text, and what of it counts.
struct ChatForm {
  std::string settings;  ///< the first line for the helper; all that it does follows from it. Empty: no template
  std::string missing;   ///< why there is none, as a clause
};

/// Returns the form with the template that data.chat_template names, or the tokenizer's folder has (`name`: see
/// choose_tokenizer.hpp). With `prompts` texts end with the generation prompt, and nothing counts. UsageError for a
/// file that is not a template's.
ChatForm chat_form(const DataOptions& options, const Tokenizer& tokenizer, const std::string& name,
                   bool prompts = false);

/// A rendered conversation.
struct RenderedChat {
  /// Bytes of the text that count.
  struct Range {
    std::size_t begin = 0, end = 0;
    bool is_exact = true;  ///< otherwise it ends with the last special token in it, if it has one
  };
  std::string text;
  std::vector<Range> counts;
  std::string problem;  ///< instead of a text: why it cannot be rendered, as a clause
};

class Helper;

/// A helper process that renders conversations.
class ChatRenderer {
 public:
  /// UsageError without a template, for one that does not compile, and where Python or Jinja2 is missing.
  explicit ChatRenderer(const ChatForm& form);
  ~ChatRenderer();
  ChatRenderer(const ChatRenderer&) = delete;
  ChatRenderer& operator=(const ChatRenderer&) = delete;

  /// Asks for conversations, each an object as JSON on one line, with messages, conversations, or prompt and
  /// completion, and perhaps tools. next() has to be called as often, whatever it finds.
  void ask(std::span<const std::string> conversations);
  /// Returns what the next of them became. IoError if the helper ends or answers something else.
  RenderedChat next();
  RenderedChat render(const std::string& conversation) { return ask({&conversation, 1}), next(); }

 private:
  std::unique_ptr<Helper> helper_;
};

}  // namespace tessera
