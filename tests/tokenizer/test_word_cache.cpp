#include <catch2/catch.hpp>
#include <string>

#include "tokenizer/word_cache.hpp"

using namespace tessera;

namespace {

std::vector<std::int32_t> ids_of(std::size_t number) {
  std::vector<std::int32_t> ids(1 + number % 9);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(number + i);
  return ids;
}

bool holds(const WordCache& cache, const std::string& word, std::size_t number) {
  const auto found = cache.find(word, WordCache::hash(word));
  const auto ids = ids_of(number);
  return std::equal(found.begin(), found.end(), ids.begin(), ids.end());
}

}  // namespace

TEST_CASE("words come back with their ids, few and many") {
  WordCache cache;
  CHECK(cache.find("a", WordCache::hash("a")).empty());
  for (std::size_t number = 0; number < 3000; ++number) {
    const std::string word = "word " + std::to_string(number);
    cache.keep(word, WordCache::hash(word), ids_of(number));
    REQUIRE(holds(cache, word, number));
  }
  for (std::size_t number = 0; number < 3000; ++number) REQUIRE(holds(cache, "word " + std::to_string(number), number));
}

TEST_CASE("words of one hash are told apart") {
  WordCache cache;
  cache.keep("one", 42, ids_of(1));
  CHECK(cache.find("two", 42).empty());
  cache.keep("two", 42, ids_of(2));
  CHECK(cache.find("one", 42).size() == 2);
  CHECK(cache.find("two", 42)[0] == 2);
}

TEST_CASE("it stays small: words go when it is full, long ones are not kept") {
  WordCache cache;
  std::size_t kept = 0;
  for (std::size_t number = 0; number < 200'000; ++number) {
    const std::string word = "w" + std::to_string(number);
    cache.keep(word, WordCache::hash(word), ids_of(number));
    REQUIRE(holds(cache, word, number));
  }
  for (std::size_t number = 0; number < 200'000; ++number) kept += holds(cache, "w" + std::to_string(number), number);
  CHECK(kept > 100);
  CHECK(kept < 70'000);
  const std::string word(WordCache::kLongestWord + 1, 'x');
  cache.keep(word, WordCache::hash(word), ids_of(1));
  CHECK(cache.find(word, WordCache::hash(word)).empty());
}
