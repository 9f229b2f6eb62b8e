#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("a byte is its own id") {
  const auto bytes = make_byte_tokenizer();
  std::string text;
  for (int i = 255; i >= 0; --i) text += static_cast<char>(i);
  std::vector<std::int32_t> ids{-1};
  bytes->encoder()->encode(text, ids);
  REQUIRE(ids.size() == 257);
  CHECK(ids[0] == -1);
  CHECK(ids[1] == 255);
  ids.erase(ids.begin());
  CHECK(bytes->decode(ids) == text);
  CHECK(bytes->vocab() == 256);
  CHECK(bytes->describe() == "bytes");
  CHECK(bytes->cut_at_or_after(text, 7) == 7);
  CHECK(bytes->id_of("a") == 97);
  CHECK_FALSE(bytes->id_of("ab"));
  CHECK_FALSE(bytes->end_of_text());
  CHECK_THROWS_AS(bytes->bytes_of(256), UsageError);
  CHECK_THROWS_AS(bytes->bytes_of(-1), UsageError);
}

TEST_CASE("the file of the bytes tokenizer is read as it, and by byte-level BPE gives the same ids") {
  const TemporaryFolder folder;
  CHECK_FALSE(is_byte_tokenizer(folder / "nothing"));
  const auto path = folder.write("tokenizer.json", byte_tokenizer_json());
  CHECK(is_byte_tokenizer(path));
  CHECK(is_byte_tokenizer(path.parent_path()));
  const auto bytes = make_byte_tokenizer(), read = open_tokenizer(path);
  CHECK(read->vocab() == 256);
  for (int id = 0; id < 256; ++id) CHECK(read->bytes_of(id) == bytes->bytes_of(id));
  // Every byte of UTF-8, and words that GPT-2 would cut.
  std::string text = "It's 12 o'clock,  isn't it?\r\n\t ";
  for (int i = 0; i < 128; ++i) text += static_cast<char>(i);
  for (const char32_t first : {0x80, 0x800, 0x10000}) {
    for (char32_t point = first; point < 0x110000; point += first) {
      if (point >= 0xd800 && point < 0xe000) continue;
      if (point < 0x800) {
        text += static_cast<char>(0xc0 | point >> 6);
      } else if (point < 0x10000) {
        text += static_cast<char>(0xe0 | point >> 12);
      } else {
        text += static_cast<char>(0xf0 | point >> 18);
        text += static_cast<char>(0x80 | (point >> 12 & 0x3f));
      }
      if (point >= 0x800) text += static_cast<char>(0x80 | (point >> 6 & 0x3f));
      text += static_cast<char>(0x80 | (point & 0x3f));
    }
  }
  std::vector<std::int32_t> ids, expected;
  read->encoder()->encode(text, ids);
  bytes->encoder()->encode(text, expected);
  CHECK(ids == expected);
  std::string other = byte_tokenizer_json();
  std::swap(other[other.find("\"a\"") + 1], other[other.find("\"b\"") + 1]);
  CHECK_FALSE(is_byte_tokenizer(folder.write("tokenizer.json", other)));
}
