#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/pattern.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("what both libraries read alike stays, white space is written out") {
  for (const std::string same : {"a|b", "(?i:'s|'t|'ll)", "[^\\r\\n\\p{L}]?\\p{L}+", "\\p{N}{1,3}", "x++|y*?|z?+",
                                 "(?<=a)b(?!c)", "[a-z_-]", "\\.\\?\\\\", "(a)(?:b)", "\\d{2,}", "[\\]]"})
    CHECK(pcre2_syntax(same) == same);
  CHECK_THAT(pcre2_syntax("\\s+"), Contains("[\\x{9}-\\x{d}") && Contains("]+"));
  CHECK_THAT(pcre2_syntax("[^\\s\\p{L}]"), Contains("[^\\x{9}-\\x{d}") && Contains("\\p{L}]"));
  CHECK_THAT(pcre2_syntax("(?!\\S)"), Contains("(?![\\x{0}-"));
}

TEST_CASE("what they read differently is refused by name and place") {
  const auto refused = [](const std::string& pattern) {
    return message_of<UsageError>([&] { pcre2_syntax(pattern); });
  };
  CHECK_THAT(refused("ab\\w+"), Contains("\\w at byte 2"));
  CHECK_THAT(refused("\\p{Han}+"), Contains("\\p{Han}"));
  CHECK_THAT(refused("\\p{^L}"), Contains("\\p{^L}"));
  CHECK_THAT(refused("^a"), Contains("has ^"));
  CHECK_THAT(refused("a$"), Contains("has $"));
  CHECK_THAT(refused("a.b"), Contains("has ."));
  CHECK_THAT(refused("[a[b]]"), Contains("class within"));
  CHECK_THAT(refused("[a&&b]"), Contains("class within"));
  CHECK_THAT(refused("[[:alpha:]]"), Contains("class within"));
  CHECK_THAT(refused("[]a]"), Contains("an empty class"));
  CHECK_THAT(refused("[ab"), Contains("without an end"));
  CHECK_THAT(refused("[\\s-z]"), Contains("begins with a set"));
  CHECK_THAT(refused("[a-\\s]"), Contains("ends in a set"));
  CHECK_THAT(refused("(?m)a"), Contains("(?m"));
  CHECK_THAT(refused("(?<name>a)"), Contains("(?<"));
  CHECK_THAT(refused("(*ANY)a"), Contains("(*A"));
  CHECK_THAT(refused("(?i:ss)"), Contains("caseless ss"));
  CHECK_THAT(refused("(?i:a+)"), Contains("caseless group"));
  CHECK_THAT(refused("a{,3}"), Contains("does not begin"));
  CHECK_THAT(refused("a{2}+"), Contains("followed by"));
  CHECK_THAT(refused("a{x}"), Contains("does not begin"));
  CHECK_THAT(refused("a**"), Contains("quantifier of a quantifier"));
  CHECK_THAT(refused("a\\"), Contains("last character"));
  CHECK_THAT(refused("\\h"), Contains("\\h"));
  CHECK_THAT(refused("\\1"), Contains("\\1"));
}

TEST_CASE("the families' patterns are read") {
  for (const char* pattern : {kGpt2Pattern, kQwen2Pattern, kLlama3Pattern}) CHECK_NOTHROW(pcre2_syntax(pattern));
}
