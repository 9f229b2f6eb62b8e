#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "tessera/config/validation_sources.hpp"

using namespace tessera;
using Catch::Contains;

using Sets = std::vector<ValidationSource>;

TEST_CASE("data.val_source is one list without a name, or sets with names") {
  CHECK(validation_sources("").empty());
  CHECK(validation_sources("val.bin") == Sets{{"", "val.bin"}});
  CHECK(validation_sources("a.txt, b c.txt,*.json") == Sets{{"", "a.txt, b c.txt,*.json"}});
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
}
