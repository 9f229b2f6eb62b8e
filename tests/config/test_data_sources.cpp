#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "tessera/config/data_sources.hpp"

using namespace tessera;
using Catch::Contains;

using Sets = std::vector<ValidationSource>;

TEST_CASE("data.val_source is one list without a name, or sets with names") {
  CHECK(validation_sources("").empty());
  CHECK(validation_sources("val.bin") == Sets{{"", "val.bin"}});
  CHECK(validation_sources("a.txt, b c.txt,*.json") == Sets{{"", "a.txt, b c.txt,*.json"}});
  CHECK(validation_sources(" wiki: a, b.txt , code:c ") == Sets{{"wiki", "a, b.txt"}, {"code", "c"}});
  CHECK(validation_sources("wiki:texts") == Sets{{"wiki", "texts"}});
  CHECK(validation_sources("wiki:a.txt,b.txt, code_2:src/*.txt") ==
        Sets{{"wiki", "a.txt,b.txt"}, {"code_2", "src/*.txt"}});
  // The text before a colon is a name only if it looks like one.
  CHECK(validation_sources("./a:b.txt") == Sets{{"", "./a:b.txt"}});
  CHECK(validation_sources("x:./a:b.txt") == Sets{{"x", "./a:b.txt"}});
}

TEST_CASE("Names that cannot be told apart are refused") {
  const auto error = [](const std::string& text) { return usage_message([&] { validation_sources(text); }); };
  CHECK_THAT(error("a.txt,code:b.txt"), Contains("has a.txt before the first name"));
  CHECK_THAT(error("a:x,a:y"), Contains("has two sets named a"));
  CHECK_THAT(error("loss:x"), Contains("has a set named loss"));
  CHECK_THAT(error("step:x,b:y"), Contains("has a set named step"));
  CHECK_THAT(error("a:,b:y"), Contains("has no path for a"));
  CHECK_THAT(error("a:0.6:x,b:0.4:y"), Contains("gives a a weight") && Contains("Use NAME:PATH,NAME:PATH."));
}

TEST_CASE("data.source is one list, or sources with weights, whose sum becomes 1") {
  using Sources = std::vector<TrainingSource>;
  for (const char* one : {"synthetic", "a b.txt,*.json", "./a:0.5:b", "a:b.txt", "a:x:b.txt", ""})
    CHECK(training_sources(one) == Sources{{"", one, 1}});
  CHECK(training_sources("chats:3:x y, z.txt,code_2:1:src/*.txt") ==
        Sources{{"chats", "x y, z.txt", 0.75}, {"code_2", "src/*.txt", 0.25}});
  CHECK(training_sources("a:1e308:x,b:1e308:y") == Sources{{"a", "x", 0.5}, {"b", "y", 0.5}});
  CHECK(training_sources("a:0.7:x") == Sources{{"", "x", 1}});
  CHECK(describe_shares(training_sources("a:2:x,b:1:y")) == "a 66.67%, b 33.33%");
  const auto error = [](const std::string& text) { return usage_message([&] { training_sources(text); }); };
  for (const char* weight : {"0", "-1", "nan", "inf", "1e999"})
    CHECK_THAT(error(fmt::format("a:{}:x,b:1:y", weight)), Contains(fmt::format("the weight {} for a", weight)));
  CHECK_THAT(error("a:1:x,b:y"), Contains("has weights, but none for b"));
  CHECK_THAT(error("x.txt,b:1:y"), Contains("has x.txt before the first name"));
  CHECK_THAT(error("a:1:x,a:1:y"), Contains("has two sets named a"));
  CHECK_THAT(error("loss:1:x,a:1:y"), Contains("has a set named loss"));
  CHECK_THAT(error("a:1:,b:1:y"), Contains("has no path for a"));
  CHECK_THAT(error("a:1:synthetic,b:1:y"), Contains("synthetic text in a mixture"));
}
