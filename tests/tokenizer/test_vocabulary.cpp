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

TEST_CASE("a byte of UTF-8 without a token is refused") {
  BpeDescription description = with({});
  description.vocabulary.erase(description.vocabulary.begin() + 0xe9);
  CHECK_THAT(message_of<UsageError>([&] { const Vocabulary none(description); }),
             Contains("some.json") && Contains("0xe9"));
  description = with({});
  description.vocabulary.erase(description.vocabulary.begin() + 0xff);  // never in UTF-8
  CHECK(Vocabulary(description).of_byte()[0xff] == -1);
}
