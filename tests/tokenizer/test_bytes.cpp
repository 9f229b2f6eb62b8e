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
