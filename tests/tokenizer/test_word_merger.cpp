#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sanitized.hpp"
#include "tokenizer/drawn_text.hpp"
#include "tokenizer/word_merger.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// A vocabulary of strings over a few letters and drawn merges; later tokens may be of lower rank than their parts.
struct DrawnMerges {
  DrawnMerges(DrawnText& drawn, std::string_view letters, std::size_t count) {
    for (const char letter : letters) add(std::string(1, letter));
    for (unsigned byte = 0; byte < 256; ++byte) of_byte[byte] = 0;
    for (const char letter : letters) of_byte[static_cast<unsigned char>(letter)] = ids.at(std::string(1, letter));
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    while (merges.size() < count) {
      const auto left = static_cast<std::int32_t>(drawn.below(texts.size())),
                 right = static_cast<std::int32_t>(drawn.below(texts.size()));
      const std::string both = texts[static_cast<std::size_t>(left)] + texts[static_cast<std::size_t>(right)];
      if (both.size() > 12 || !pairs.insert({left, right}).second) continue;
      add(both);
      merges.push_back({left, right, ids.at(both)});
    }
    for (std::size_t i = 0; i + 1 < merges.size(); ++i)  // any order of ranks
      std::swap(merges[i], merges[i + drawn.below(std::min<std::size_t>(merges.size() - i, 4))]);
  }
  void add(const std::string& text) {
    if (ids.emplace(text, static_cast<std::int32_t>(texts.size())).second) texts.push_back(text);
  }
  /// The definition: the lowest rank, the leftmost of several, one merge at a time.
  std::vector<std::int32_t> by_definition(std::string_view word) const {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> ranks;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) ranks[{merges[rank].left, merges[rank].right}] = rank;
    std::vector<std::int32_t> tokens;
    for (const char c : word) tokens.push_back(of_byte[static_cast<unsigned char>(c)]);
    for (;;) {
      std::size_t best = merges.size(), at = 0;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const auto found = ranks.find({tokens[i], tokens[i + 1]});
        if (found != ranks.end() && found->second < best) best = found->second, at = i;
      }
      if (best == merges.size()) return tokens;
      tokens[at] = merges[best].result;
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at + 1));
    }
  }

  std::map<std::string, std::int32_t> ids;
  std::vector<std::string> texts;
  std::vector<Merge> merges;
  std::array<std::int32_t, 256> of_byte{};
};

}  // namespace

TEST_CASE("words merge by their definition, short and long") {
  DrawnText drawn(5);
  for (int round = 0; round < 40; ++round) {
    const std::string letters = drawn.below(2) == 0 ? "ab" : "abcd";
    const DrawnMerges drawn_merges(drawn, letters, 1 + drawn.below(60));
    const MergeTable table(drawn_merges.merges);
    WordMerger merger(table, drawn_merges.of_byte);
    for (const std::size_t length : {1u, 2u, 3u, 7u, 30u, 127u, 128u, 129u, 200u, 500u}) {
      const std::string word = drawn.below(3) == 0 ? std::string(length, 'a') : drawn.letters(length, letters);
      INFO("round " << round << ", " << word);
      const auto ids = merger.merge(word);
      REQUIRE(std::vector<std::int32_t>(ids.begin(), ids.end()) == drawn_merges.by_definition(word));
    }
  }
}

TEST_CASE("long words take linear time: two million letters, one or four of them") {
  const std::size_t length = testing::kSanitized ? 200'000 : 2'000'000;
  DrawnText drawn(6);
  const DrawnMerges drawn_merges(drawn, "abcd", 200);
  const MergeTable table(drawn_merges.merges);
  WordMerger merger(table, drawn_merges.of_byte);
  for (const std::string_view letters : {"a", "abcd"}) {
    const std::string word = drawn.letters(length, letters);
    std::string back;
    for (const std::int32_t id : merger.merge(word)) back += drawn_merges.texts[static_cast<std::size_t>(id)];
    CHECK(back == word);
  }
}

TEST_CASE("a table without merges") {
  const MergeTable table({});
  CHECK(table.rank(0, 0) == kNoRank);
  std::array<std::int32_t, 256> of_byte{};
  of_byte['a'] = 7;
  WordMerger merger(table, of_byte);
  CHECK(merger.merge("aaa").size() == 3);
  CHECK(merger.merge(std::string(1000, 'a')).size() == 1000);
}
