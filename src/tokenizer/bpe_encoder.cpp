// Text to ids: valid UTF-8, added tokens out, normalised, words, ids of words.

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/bpe.hpp"
#include "tokenizer/code_points.hpp"
#include "tokenizer/text_normalizer.hpp"
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
        splitter_(tables.words, quick),
        merger_(tables.merges, tables.vocabulary.of_byte()),
        normalizer_(tables.normal) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids, bool goes_on) override {
    out_ = &ids;
    waiting_ = 0;
    while (!text.empty()) {
      const std::size_t cut = text.size() <= kPiece ? text.size() : cut_bpe_at_or_after(tables_, text, kPiece);
      encode_piece(text.substr(0, cut), goes_on);
      text.remove_prefix(cut);
      goes_on = true;
    }
    flush();
  }
  std::string take_lost() override { return std::exchange(lost_, {}); }

 private:
  void encode_piece(std::string_view piece, bool goes_on) {
    const std::string_view valid = well_formed(piece, valid_);
    each_part(tables_.plain, valid, [&](std::string_view between) {
      const bool first = between.data() == valid.data();
      const std::string_view text = normalizer_.normalize(between, first && goes_on);
      each_part(tables_.normalized, text, [&](std::string_view words) {
        const bool begins = first && !goes_on && words.data() == text.data();
        splitter_.split(words, begins, [&](std::string_view word) { encode_word(word); });
      });
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

  void encode_word(std::string_view word) {
    const std::uint64_t hash = WordCache::hash(word);
    const auto known = cache_.find(word, hash);
    if (!known.empty()) return put(known);
    std::string lost;
    const auto ids = ids_of(word, lost);
    if (!lost.empty()) {
      if (lost_.empty()) lost_ = lost;
    } else if (!ids.empty()) {
      cache_.keep(word, hash, ids);
    }
    put(ids);
  }

  std::span<const std::int32_t> ids_of(std::string_view word, std::string& lost) {
    if (tables_.ignore_merges) {
      if (const auto id = tables_.vocabulary.word(word)) {
        whole_word_ = *id;
        return {&whole_word_, 1};
      }
    }
    if (tables_.vocabulary.has_all_bytes()) return merger_.merge(word);
    begins_.clear();
    lost = tables_.vocabulary.begin_word(word, begins_);
    return merger_.merge(begins_);
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
  WordSplitter splitter_;
  WordMerger merger_;
  WordCache cache_;
  TextNormalizer normalizer_;
  std::string valid_, lost_;
  std::vector<std::int32_t> begins_;
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
