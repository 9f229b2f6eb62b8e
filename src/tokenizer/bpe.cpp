#include "tokenizer/bpe.hpp"

#include <xxhash.h>

#include <algorithm>
#include <new>
#include <utility>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/unique_handle.hpp"
#include "tokenizer/text_normalizer.hpp"

namespace tessera {

namespace {

/// The added tokens that are looked for before (or in) normalised text, as they look there.
std::vector<AddedToken> tokens_to_match(const BpeDescription& description, bool normalized) {
  std::vector<AddedToken> tokens;
  TextNormalizer normalizer(description.normal);
  for (AddedToken token : description.added) {
    if (token.normalized != normalized) continue;
    if (normalized) token.content = std::string(normalizer.normalize(token.content));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// Returns the rules of words, with one more where texts may be cut before marks: it gives words that are kept and
/// found again instead of whole texts.
std::vector<TextRule> words_of(const BpeDescription& description, Cuts cuts) {
  std::vector<TextRule> rules = description.words;
  if (cuts == Cuts::before_marks)
    rules.push_back({TextRule::Kind::split, fmt::format("{0}*[^{0}]+|{0}+", description.mark), ""});
  return rules;
}

bool puts_mark_first(const BpeDescription& description) {
  const auto puts = [&](const auto& rule) { return rule.from.empty() && rule.to == description.mark; };
  return !description.mark.empty() &&
         (std::ranges::any_of(description.normal, puts) || std::ranges::any_of(description.words, puts));
}

/// A sum over parts that cannot run into each other.
class Digest {
 public:
  Digest() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    XXH3_64bits_update(state_.get(), text.data(), text.size());
  }
  void add(std::int64_t number) {
    unsigned char bytes[sizeof(number)];
    for (std::size_t i = 0; i < sizeof(bytes); ++i)
      bytes[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * i));
    XXH3_64bits_update(state_.get(), bytes, sizeof(bytes));
  }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    static XXH3_state_t* none() { return nullptr; }
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  UniqueHandle<XXH3_state_t*, Free> state_;
};

/// Tokenizers of bytes with one pattern have the sums that they had when there were no others.
void add_rules(const BpeDescription& description, Digest& digest) {
  const std::vector<TextRule>& words = description.words;
  const bool prefix = !words.empty() && words[0] == TextRule{TextRule::Kind::prefix, "", " "};
  const TextRule last = words.empty() ? TextRule() : words.back();
  const auto is_nfc = [](const TextRule& rule) { return rule.kind == TextRule::Kind::nfc; };
  digest.add(last.from);
  digest.add(std::ranges::any_of(description.normal, is_nfc) | description.ignore_merges << 1 | prefix << 2);
  const bool one = words.size() == (prefix ? 2 : 1) && last == TextRule{TextRule::Kind::split, last.from, ""};
  if (!one || !description.byte_level || !std::ranges::all_of(description.normal, is_nfc))
    digest.add(description.rules);
}

std::uint64_t hash_of(const BpeDescription& description) {
  Digest digest;
  auto vocabulary = description.vocabulary;  // the file's order decides nothing
  std::sort(vocabulary.begin(), vocabulary.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  digest.add(static_cast<std::int64_t>(vocabulary.size()));
  for (const auto& [spelling, id] : vocabulary) {
    digest.add(spelling);
    digest.add(id);
  }
  digest.add(static_cast<std::int64_t>(description.merges.size()));
  for (const Merge& merge : description.merges) {
    digest.add(merge.left);
    digest.add(merge.right);
  }
  auto added = description.added;
  std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const AddedToken& token : added) {
    digest.add(token.content);
    digest.add(token.id);
    digest.add(token.single_word | token.lstrip << 1 | token.rstrip << 2 | token.normalized << 3 | token.ignored << 4);
  }
  add_rules(description, digest);
  return digest.value();
}

class Bpe final : public Tokenizer {
 public:
  explicit Bpe(const BpeDescription& description)
      : file_(description.file),
        tables_(description),
        end_(description.end_of_text),
        before_text_(description.before_text),
        named_tokens_(description.named),
        byte_level_(description.byte_level),
        hash_(hash_of(description)) {
    for (const AddedToken& token : description.added)
      if (token.special) special_ids_.push_back(token.id);
    std::ranges::sort(special_ids_);
    for (const std::int32_t id : before_text_) {
      if (!tables_.vocabulary.bytes_of(id))
        throw refusal("{}: post_processor puts id {} before a text, but it is not in the vocabulary", file_, id)
            .use("an id of the vocabulary");
    }
  }

  std::unique_ptr<Encoder> encoder() const override { return make_bpe_encoder(tables_); }
  std::size_t cut_at_or_after(std::string_view text, std::size_t from) const override {
    return cut_bpe_at_or_after(tables_, text, from);
  }
  std::string_view bytes_of(std::int32_t id) const override {
    const auto bytes = tables_.vocabulary.bytes_of(id);
    if (!bytes) throw refusal("token {} is not in the vocabulary of {}", id, file_).use("ids 0 to {}", vocab() - 1);
    return *bytes;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text = Tokenizer::decode(ids);
    if (tables_.begins_with_mark && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }
  std::optional<std::int32_t> id_of(std::string_view token) const override { return tables_.vocabulary.id_of(token); }
  std::optional<std::int32_t> end_of_text() const override {
    if (end_) return named(*end_);
    if (const auto id = id_of("<|endoftext|>")) return id;
    return id_of("<|end_of_text|>");
  }
  std::vector<std::int32_t> before_text() const override { return before_text_; }
  std::vector<std::int32_t> special_ids() const override { return special_ids_; }
  std::vector<std::pair<std::string, std::string>> named_tokens() const override { return named_tokens_; }
  std::int64_t vocab() const override { return tables_.vocabulary.size(); }
  std::uint64_t hash() const override { return hash_; }
  std::string describe() const override {
    const std::filesystem::path path(file_);
    return fmt::format("{} ({}BPE, {} ids)", (path.parent_path().filename() / path.filename()).string(),
                       byte_level_ ? "byte-level " : "", vocab());
  }

 private:
  std::int32_t named(const NamedToken& token) const {
    if (token.content) {
      if (const auto id = id_of(*token.content)) return *id;
      throw refusal("{} is {}, which is not in the vocabulary of {}", token.where, shown(*token.content), file_)
          .use("a token of it, or null");
    }
    if (token.id < 0 || token.id >= vocab() || !tables_.vocabulary.bytes_of(static_cast<std::int32_t>(token.id)))
      throw refusal("{} is {}, which is not in the vocabulary of {}", token.where, token.id, file_)
          .use("an id of it, or null");
    return static_cast<std::int32_t>(token.id);
  }

  std::string file_;
  BpeTables tables_;
  std::optional<NamedToken> end_;
  std::vector<std::int32_t> before_text_, special_ids_;
  std::vector<std::pair<std::string, std::string>> named_tokens_;
  bool byte_level_;
  std::uint64_t hash_;
};

}  // namespace

BpeTables::BpeTables(const BpeDescription& description)
    : vocabulary(description),
      merges(description.merges),
      plain(tokens_to_match(description, false)),
      normalized(tokens_to_match(description, true)),
      normal(description.normal),
      cuts(cuts_of(description)),
      words(words_of(description, cuts)),
      ignore_merges(description.ignore_merges),
      mark(description.mark),
      begins_with_mark(puts_mark_first(description)) {}

std::unique_ptr<Tokenizer> make_bpe(const BpeDescription& description) { return std::make_unique<Bpe>(description); }

}  // namespace tessera
