// Text to ids: valid UTF-8, added tokens out, normal form, words, ids of words.

#include <algorithm>
#include <array>

#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/code_points.hpp"
#include "tokenizer/normal_form.hpp"
#include "tokenizer/quick_words.hpp"
#include "tokenizer/word_cache.hpp"
#include "tokenizer/word_merger.hpp"

namespace tessera {

namespace {

/// Text is encoded in pieces of about this size where it may be cut: scratch stays small, and in the cache.
constexpr std::size_t kPiece = std::size_t{64} << 10;

class BpeEncoder final : public Tokenizer::Encoder {
 public:
  BpeEncoder(const BpeTables& tables, bool quick)
      : tables_(tables),
        family_(quick ? tables.pattern.family() : PatternFamily::other),
        finder_(tables.pattern),
        merger_(tables.merges, tables.vocabulary.of_byte()) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    out_ = &ids;
    waiting_ = 0;
    while (!text.empty()) {
      const std::size_t cut = text.size() <= kPiece ? text.size() : cut_bpe_at_or_after(tables_, text, kPiece);
      encode_piece(text.substr(0, cut));
      text.remove_prefix(cut);
    }
    flush();
  }

 private:
  void encode_piece(std::string_view piece) {
    each_part(tables_.plain, well_formed(piece, valid_), [&](std::string_view between) {
      const std::string_view text = tables_.nfc ? form_.compose(between) : between;
      each_part(tables_.normalized, text, [&](std::string_view words) { encode_words(words); });
    });
  }

  /// Puts the added tokens of `matcher` and passes the text between them.
  template <class Use>
  void each_part(const AddedMatcher& matcher, std::string_view text, Use&& use) {
    if (matcher.empty()) return use(text);
    matcher.cut(text, [&](const AddedPart& part) {
      if (part.id) {
        put({&*part.id, 1});
      } else {
        use(part.text);
      }
    });
  }

  void encode_words(std::string_view text) {
    if (tables_.add_prefix_space && !text.starts_with(' ')) {
      prefixed_.assign(1, ' ').append(text);
      text = prefixed_;
    }
    switch (family_) {
      case PatternFamily::other:
        return cut_by_pattern(text);
      case PatternFamily::gpt2:
        return cut_quickly<PatternFamily::gpt2>(text);
      case PatternFamily::qwen2:
        return cut_quickly<PatternFamily::qwen2>(text);
      case PatternFamily::llama3:
        return cut_quickly<PatternFamily::llama3>(text);
    }
  }

  template <PatternFamily kFamily>
  void cut_quickly(std::string_view text) {
    const QuickWords<kFamily> words(text);
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = words.end_of_word(at);
      if (end == words.kAsk) end = finder_.next(text, at).end;
      encode_word(text.substr(at, end - at));
      at = end;
    }
  }

  void cut_by_pattern(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const Pattern::Found found = finder_.next(text, at);
      if (found.begin > at) encode_word(text.substr(at, found.begin - at));  // unmatched text is a word, too
      if (found.end > found.begin) encode_word(text.substr(found.begin, found.end - found.begin));
      at = found.end;
    }
  }

  void encode_word(std::string_view word) {
    const std::uint64_t hash = WordCache::hash(word);
    const auto known = cache_.find(word, hash);
    if (!known.empty()) return put(known);
    const auto ids = ids_of(word);
    cache_.keep(word, hash, ids);
    put(ids);
  }

  std::span<const std::int32_t> ids_of(std::string_view word) {
    if (tables_.ignore_merges) {
      if (const auto id = tables_.vocabulary.word(word)) {
        whole_word_ = *id;
        return {&whole_word_, 1};
      }
    }
    return merger_.merge(word);
  }

  void put(std::span<const std::int32_t> ids) {
    if (ids.size() > block_.size() - waiting_) flush();
    if (ids.size() > block_.size()) {
      out_->insert(out_->end(), ids.begin(), ids.end());
    } else {
      std::copy(ids.begin(), ids.end(), block_.begin() + static_cast<std::ptrdiff_t>(waiting_));
      waiting_ += ids.size();
    }
  }
  void flush() {
    out_->insert(out_->end(), block_.begin(), block_.begin() + static_cast<std::ptrdiff_t>(waiting_));
    waiting_ = 0;
  }

  const BpeTables& tables_;
  PatternFamily family_;
  Pattern::Finder finder_;
  WordMerger merger_;
  WordCache cache_;
  NormalForm form_;
  std::string valid_, prefixed_;
  std::int32_t whole_word_ = 0;
  // Ids on their way to the caller's list, which grows in blocks.
  std::array<std::int32_t, 1024> block_{};
  std::size_t waiting_ = 0;
  std::vector<std::int32_t>* out_ = nullptr;
};

}  // namespace

std::unique_ptr<Tokenizer::Encoder> make_bpe_encoder(const BpeTables& tables, bool quick) {
  return std::make_unique<BpeEncoder>(tables, quick);
}

}  // namespace tessera
