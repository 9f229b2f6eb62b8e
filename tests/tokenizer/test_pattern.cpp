#include "file_support.hpp"
#include "sanitized.hpp"
#include "tessera/base/error.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/drawn_text.hpp"
#include "tokenizer/pattern.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

std::vector<std::string> words_of(const char* pattern, const std::string& text) {
  const Pattern compiled(pattern);
  Pattern::Finder finder(compiled);
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = finder.next(text, at);
    if (found.begin > at) words.push_back("gap:" + text.substr(at, found.begin - at));
    if (found.end > found.begin) words.push_back(text.substr(found.begin, found.end - found.begin));
    at = found.end;
  }
  return words;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("the families cut words as the library does") {
  CHECK(words_of(kGpt2Pattern, "I've 12 a\n\n b!") == Words{"I", "'ve", " 12", " a", "\n\n", " b", "!"});
  CHECK(words_of(kQwen2Pattern, "I'VE 12 a\n\n b!\n") == Words{"I", "'VE", " ", "1", "2", " a", "\n\n", " b", "!\n"});
  CHECK(words_of(kLlama3Pattern, "1234 \u0663\u0664\u0665\u0666") ==
        Words{"123", "4", " ", "\u0663\u0664\u0665", "\u0666"});
  CHECK(words_of(kQwen2Pattern, "x'\u017f y'\u212a") == Words{"x", "'\u017f", " y", "'\u212a"});
}

TEST_CASE("U+180E is no white space") {
  CHECK(words_of(kGpt2Pattern, "a \u180eb") == Words{"a", " \u180e", "b"});
  CHECK(words_of(kGpt2Pattern, "a \u3000b") == Words{"a", " ", "\u3000", "b"});
}

TEST_CASE("families are known by their pattern, others match where they do") {
  CHECK(Pattern(kGpt2Pattern).family() == PatternFamily::gpt2);
  CHECK(Pattern(kQwen2Pattern).family() == PatternFamily::qwen2);
  CHECK(Pattern(kLlama3Pattern).family() == PatternFamily::llama3);
  CHECK(Pattern("\\p{L}+").family() == PatternFamily::other);
  CHECK(words_of("\\p{L}+", "ab12cd!") == Words{"ab", "gap:12", "cd", "gap:!"});
  CHECK(words_of("b", "\u00e9b\u00e9") == Words{"gap:\u00e9", "b", "gap:\u00e9"});
}

TEST_CASE("patterns that are no patterns") {
  const auto refused = [](const std::string& pattern) {
    return message_of<UsageError>([&] { const Pattern none(pattern); });
  };
  CHECK_THAT(refused("(a"), Contains("(a") && Contains("parenthesis"));
  CHECK_THAT(refused("a*"), Contains("may match no character"));
  CHECK_THAT(refused("a|"), Contains("may match no character"));
}

TEST_CASE("a run of ten megabytes is one word") {
  const std::size_t size = testing::kSanitized ? 1'000'000 : 10'000'000;
  for (const char* pattern : {kGpt2Pattern, kQwen2Pattern, kLlama3Pattern}) {
    const Pattern compiled(pattern);
    Pattern::Finder finder(compiled);
    CHECK(finder.next(std::string(size, ' '), 0).end == size);
    CHECK(finder.next(std::string(size, 'a'), 0).end == size);
    CHECK(finder.next(std::string(size, ' ') + "a", 0).end == size - 1);
  }
  // Groups need stack for every repetition: the interpreter goes on where the compiled pattern's ends.
  const Pattern groups("(?:a|b)+c|\\p{L}");
  Pattern::Finder finder(groups);
  CHECK(finder.next(std::string(size / 10, 'a') + "c", 0).end == size / 10 + 1);
}
