#include <catch2/catch.hpp>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("Joined sources are read as one, over their borders") {
  std::vector<std::unique_ptr<TokenSource>> parts;
  parts.push_back(tokens_in_memory({1, 2, 3}, 10));
  parts.push_back(tokens_in_memory({4}, 300));
  parts.push_back(tokens_in_memory({5, 6}, 10));
  const auto joined = join_sources("parts", std::move(parts));
  CHECK(joined->size() == 6);
  CHECK(joined->id_bound() == 300);
  CHECK_THAT(joined->describe(), Contains("parts"));
  for (std::int64_t first = 0; first <= 6; ++first) {
    for (std::int64_t count = 0; first + count <= 6; ++count) {
      std::vector<std::int32_t> out(static_cast<std::size_t>(count)), expected;
      joined->copy(first, count, out.data());
      for (std::int64_t i = 0; i < count; ++i) expected.push_back(static_cast<std::int32_t>(first + i + 1));
      REQUIRE(out == expected);
    }
  }
  CHECK(joined->place(1, 2) == "tokens in memory, tokens 1 to 2");
  CHECK(joined->place(2, 3) ==
        "tokens in memory, tokens 2 to 2; tokens in memory, tokens 0 to 0; tokens in memory, tokens 0 to 0");
  std::int32_t one = 0;
  CHECK_THROWS_AS(joined->copy(6, 1, &one), InternalError);
  CHECK_FALSE(joined->has_documents());
  CHECK(fingerprint(*joined) == fingerprint(*tokens_in_memory({1, 2, 3, 4, 5, 6}, 10)));
}
