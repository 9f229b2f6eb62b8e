#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/vocabulary.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// Every byte, then these.
BpeDescription with(std::vector<VocabularyEntry> more) {
  BpeDescription description;
  description.file = "some.json";
  description.byte_level = true;
  for (int byte = 0; byte < 256; ++byte)
    description.vocabulary.push_back({std::string(spelling_of(static_cast<unsigned char>(byte))), byte});
  description.vocabulary.insert(description.vocabulary.end(), more.begin(), more.end());
  return description;
}

}  // namespace

TEST_CASE("tokens by id, by word and by content") {
  BpeDescription description = with({{"\u0120the", 300}, {"a b", 301}, {"<|x|>", 302}});
  AddedToken token;
  token.content = "\u00e9 new";
  token.id = 400;
  description.added = {token};
  const Vocabulary vocabulary(description);
  CHECK(vocabulary.size() == 401);
  CHECK(vocabulary.bytes_of(300) == " the");
  CHECK(vocabulary.bytes_of(301) == "a b");  // no spelling: its own text
  CHECK(vocabulary.bytes_of(400) == "\u00e9 new");
  CHECK(vocabulary.bytes_of(0xff) == "\xff");
  for (const std::int32_t id : {-1, 256, 299, 399, 401}) CHECK_FALSE(vocabulary.bytes_of(id));
  CHECK(vocabulary.word(" the") == 300);
  CHECK_FALSE(vocabulary.word("a b"));
  CHECK(vocabulary.id_of("\u0120the") == 300);
  CHECK(vocabulary.id_of("a b") == 301);
  CHECK(vocabulary.id_of("\u00e9 new") == 400);
  CHECK_FALSE(vocabulary.id_of(" the"));
  CHECK(vocabulary.of_byte()['a'] == 'a');
}

TEST_CASE("bytes without a token") {
  BpeDescription description = with({});
  description.vocabulary.erase(description.vocabulary.begin() + 0xff);  // never in UTF-8
  CHECK(Vocabulary(description).of_byte()[0xff] == -1);
  CHECK(Vocabulary(description).has_all_bytes());
  description.vocabulary.erase(description.vocabulary.begin() + 0xe9);
  const Vocabulary vocabulary(description);
  CHECK_FALSE(vocabulary.has_all_bytes());
  std::vector<std::int32_t> ids;
  CHECK(vocabulary.begin_word("a\u9999", ids) == "byte 0xe9");
  CHECK(ids == std::vector<std::int32_t>{'a', 0xa6, 0x99});
}

TEST_CASE("characters without a token become those of their bytes, or unknown ones") {
  BpeDescription description;
  description.vocabulary = {{"a", 0}, {"\u2581", 1}, {"?", 2}, {"<0xC3>", 3}, {"<0xA9>", 4}};
  description.mark = "\u2581";
  description.unknown = 2;
  using Ids = std::vector<std::int32_t>;
  const auto begins = [&](const std::string& word) {
    Ids ids;
    CHECK(Vocabulary(description).begin_word(word, ids).empty());
    return ids;
  };
  CHECK(begins("\u2581a\u00e9\u00e8a") == Ids{1, 0, 2, 2, 0});
  description.fuse_unknown = true;
  CHECK(begins("\u00e9\u00e8a\u00e9") == Ids{2, 0, 2});
  description.byte_fallback = true;
  CHECK(begins("a\u00e9\u00e8") == Ids{0, 3, 4, 2});
  CHECK(begins("\u00e8\u00e9a") == Ids{3, 4, 2, 0});  // as the library has it: the bytes do not end what waits
  CHECK(Vocabulary(description).bytes_of(1) == " ");
  CHECK(Vocabulary(description).bytes_of(3) == "\xc3");
}
