#pragma once
// Text to token ids and back.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// Writes text as ids. All calls may come from several threads at once; an Encoder belongs to one thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// One thread's encoder: scratch and a cache of words, kept between calls. Must not outlive its tokenizer.
  class Encoder {
   public:
    virtual ~Encoder() = default;
    /// Appends the ids of a text. Added tokens inside it become their ids; no token is put before or after it. Invalid
    /// UTF-8 is read as U+FFFD, one for each maximal ill-formed part (Unicode 15, section 3.9, as Python's
    /// errors="replace"); the bytes tokenizer keeps it. The result does not depend on what was encoded before.
    /// `goes_on`: the text before it was encoded in another call, and cut where cut_at_or_after said.
    virtual void encode(std::string_view text, std::vector<std::int32_t>& ids, bool goes_on) = 0;
    void encode(std::string_view text, std::vector<std::int32_t>& ids) { encode(text, ids, false); }
    /// Returns the first character, or byte, of the texts since the last call that has no token, and was left out;
    /// empty if there was none.
    virtual std::string take_lost() { return {}; }
  };
  virtual std::unique_ptr<Encoder> encoder() const = 0;

  /// Returns the position at or after `from` (> 0) where `text` may be cut: encoding both parts gives the ids of the
  /// whole. Returns text.size() if there is no such position, or if this tokenizer cannot tell.
  virtual std::size_t cut_at_or_after(std::string_view text, std::size_t from) const = 0;

  /// Returns the bytes of an id, which alone need not be valid UTF-8. UsageError for an id that is not in the
  /// vocabulary.
  virtual std::string_view bytes_of(std::int32_t id) const = 0;
  /// Returns the text of ids. decode(encode(x)) = x for valid UTF-8. Exceptions: files that ask for normal form C, to
  /// leave out a space before the text, or for an added token that takes white space with it; characters without a
  /// token.
  virtual std::string decode(std::span<const std::int32_t> ids) const {
    std::string text;
    for (const std::int32_t id : ids) text += bytes_of(id);
    return text;
  }

  /// Returns the id of a token by its content ("<|endoftext|>"), added tokens first, else as the vocabulary spells it
  /// ("Ġthe"); nothing if there is none.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  /// Returns the end-of-text token that the folder names (tokenizer_config.json, config.json), else <|endoftext|> or
  /// <|end_of_text|> where the vocabulary has it; nothing if there is none. UsageError if the folder names one that is
  /// not in the vocabulary.
  virtual std::optional<std::int32_t> end_of_text() const = 0;

  /// Returns the ids that a text begins with (Llama 3: <|begin_of_text|>), by the file's template; `encode` leaves them
  /// out. Mostly empty.
  virtual std::vector<std::int32_t> before_text() const { return {}; }

  /// Returns the ids of special tokens in order: those that mark a text's parts and are not text themselves.
  virtual std::vector<std::int32_t> special_ids() const { return {}; }
  /// Returns the tokens with a name in the folder's files, such as {"bos_token", "<s>"}.
  virtual std::vector<std::pair<std::string, std::string>> named_tokens() const { return {}; }

  /// Returns 1 + the largest id.
  virtual std::int64_t vocab() const = 0;
  /// Returns a number for everything that decides ids, equal on every machine.
  virtual std::uint64_t hash() const = 0;
  /// Returns one human-readable line: "gpt2/tokenizer.json (byte-level BPE, 50257 ids)", "bytes".
  virtual std::string describe() const = 0;
};

/// Returns the ids that stand before a document by data.begin: none, before_text() for auto, or a token by its content.
/// UsageError if there is no such token.
std::vector<std::int32_t> begin_of(const Tokenizer& tokenizer, const std::string& begin);
/// Returns what data.begin = auto means with this tokenizer: the content of before_text(), or none.
std::string begin_name(const Tokenizer& tokenizer);

/// Appends the ids of all of a text. UsageError if a character has no token.
void encode_prompt(const Tokenizer& tokenizer, Tokenizer::Encoder& encoder, std::string_view text,
                   std::vector<std::int32_t>& ids);

/// A byte is its own id.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Returns the tokenizer.json of that tokenizer: 256 tokens and no merges.
std::string byte_tokenizer_json();

/// Returns whether a folder (or file) has just such a tokenizer.json.
bool is_byte_tokenizer(const std::filesystem::path& path);

/// The folder in which a run keeps the tokenizer that data.tokenizer named, apart from its model's config.json, which
/// would decide its class.
inline constexpr const char* kNamedTokenizer = "named_tokenizer";

/// The file of a chat template in a tokenizer's folder.
inline constexpr const char* kChatTemplate = "chat_template.jinja";

/// Returns the folder with the files of a folder's tokenizer: FOLDER/named_tokenizer if there is one, else FOLDER.
std::filesystem::path tokenizer_in(const std::filesystem::path& folder);

/// Returns whether a folder has files that open_tokenizer reads.
bool has_tokenizer(const std::filesystem::path& folder);

/// Returns a file of a folder that holds a tokenizer in a form that is not read ("tokenizer.model"), or nothing.
std::string foreign_tokenizer(const std::filesystem::path& folder);

/// Opens tokenizer.json (BPE), or vocab.json with merges.txt (GPT-2's and Qwen2's), given as the file or its folder.
/// Ids are those of AutoTokenizer of Transformers 5, with tokens and flags of tokenizer_config.json,
/// special_tokens_map.json and added_tokens.json. UsageError naming the file and the JSON path of what is wrong, or of
/// what it asks for and this version does not have.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

/// Opens a folder's tokenizer; nothing if it has none, or one that open_tokenizer refuses.
std::unique_ptr<Tokenizer> readable_tokenizer(const std::filesystem::path& folder);

}  // namespace tessera
