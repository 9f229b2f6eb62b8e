#include "tokenizer/byte_level_bpe.hpp"

#include <xxhash.h>

#include <algorithm>
#include <new>
#include <utility>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/unique_handle.hpp"
#include "tokenizer/normal_form.hpp"

namespace tessera {

namespace {

/// The added tokens that are looked for before (or in) normalised text, as they look there.
std::vector<AddedToken> tokens_to_match(const BpeDescription& description, bool normalized) {
  std::vector<AddedToken> tokens;
  NormalForm form;
  for (AddedToken token : description.added) {
    if (token.normalized != normalized) continue;
    if (normalized && description.nfc) token.content = std::string(form.compose(token.content));
    tokens.push_back(std::move(token));
  }
  return tokens;
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
    digest.add(token.single_word | token.lstrip << 1 | token.rstrip << 2 | token.normalized << 3);
  }
  digest.add(description.pattern);
  digest.add(description.nfc | description.ignore_merges << 1 | description.add_prefix_space << 2);
  return digest.value();
}

class ByteLevelBpe final : public Tokenizer {
 public:
  ByteLevelBpe(const BpeDescription& description, std::optional<NamedToken> end)
      : file_(description.file),
        tables_(description),
        end_(std::move(end)),
        before_text_(description.before_text),
        hash_(hash_of(description)) {
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
  std::optional<std::int32_t> id_of(std::string_view token) const override { return tables_.vocabulary.id_of(token); }
  std::optional<std::int32_t> end_of_text() const override {
    if (end_) return named(*end_);
    if (const auto id = id_of("<|endoftext|>")) return id;
    return id_of("<|end_of_text|>");
  }
  std::vector<std::int32_t> before_text() const override { return before_text_; }
  std::int64_t vocab() const override { return tables_.vocabulary.size(); }
  std::uint64_t hash() const override { return hash_; }
  std::string describe() const override {
    const std::filesystem::path path(file_);
    return fmt::format("{} (byte-level BPE, {} ids)", (path.parent_path().filename() / path.filename()).string(),
                       vocab());
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
  std::vector<std::int32_t> before_text_;
  std::uint64_t hash_;
};

}  // namespace

BpeTables::BpeTables(const BpeDescription& description)
    : vocabulary(description),
      merges(description.merges),
      plain(tokens_to_match(description, false)),
      normalized(tokens_to_match(description, true)),
      pattern(description.pattern),
      nfc(description.nfc),
      ignore_merges(description.ignore_merges),
      add_prefix_space(description.add_prefix_space),
      cuts(may_be_cut(description, pattern.family())) {}

std::unique_ptr<Tokenizer> make_byte_level_bpe(const BpeDescription& description, std::optional<NamedToken> end) {
  return std::make_unique<ByteLevelBpe>(description, std::move(end));
}

}  // namespace tessera
