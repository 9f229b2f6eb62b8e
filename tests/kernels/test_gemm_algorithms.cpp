#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "tessera/base/error.hpp"
#include "tessera/kernels/gemm_algorithms.hpp"

using namespace tessera;

namespace {

GemmAlgorithms some_choices() {
  std::mt19937_64 random(2);
  GemmAlgorithms choices;
  for (int i = 0; i < 50; ++i) {
    GemmAlgorithms::Key key;
    for (std::size_t k = 0; k < 1 + random() % 12; ++k)
      key.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
    GemmAlgorithm choice;
    for (auto& word : choice.algorithm) word = random() >> (random() % 64);
    choice.workspace_bytes = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    choice.possible = static_cast<std::int64_t>(random() % 2);
    choices.set(key, choice);
  }
  return choices;
}

}  // namespace

TEST_CASE("chosen algorithms are found under their key, the last one set") {
  GemmAlgorithms choices;
  CHECK(choices.find({1, 2}) == nullptr);
  GemmAlgorithm choice;
  choice.algorithm[7] = 9, choice.possible = 1;
  choices.set({1, 2}, {});
  choices.set({1, 2}, choice);
  choices.set({1, 2, 3}, {});
  CHECK(choices.size() == 2);
  REQUIRE(choices.find({1, 2}) != nullptr);
  CHECK(*choices.find({1, 2}) == choice);
  CHECK(choices.find({1}) == nullptr);
}

TEST_CASE("a table of algorithms comes back from its text") {
  const GemmAlgorithms choices = some_choices();
  const GemmAlgorithms read = GemmAlgorithms::parse(choices.text());
  CHECK(read.size() == choices.size());
  CHECK(read.text() == choices.text());
  CHECK(GemmAlgorithms::parse("").size() == 0);
  GemmAlgorithms one;
  GemmAlgorithm choice;
  choice.algorithm.fill(0xabc), choice.workspace_bytes = std::numeric_limits<std::int64_t>::max(), choice.possible = 1;
  one.set({-3, 0, std::numeric_limits<std::int64_t>::min()}, choice);
  CHECK(one.text() ==
        "-3 0 -9223372036854775808 : 1 9223372036854775807 0000000000000abc 0000000000000abc 0000000000000abc "
        "0000000000000abc 0000000000000abc 0000000000000abc 0000000000000abc 0000000000000abc\n");
  CHECK(*GemmAlgorithms::parse(one.text()).find({-3, 0, std::numeric_limits<std::int64_t>::min()}) == choice);
}

TEST_CASE("a text that was cut or changed is refused") {
  const std::string text = some_choices().text();
  for (std::size_t length = 1; length < text.size(); ++length) {
    if (text[length - 1] == '\n') continue;  // whole lines are a table
    INFO("cut after " << length << " bytes");
    REQUIRE_THROWS_AS(GemmAlgorithms::parse(text.substr(0, length)), IoError);
  }
  const std::string line =
      "4 : 1 0 0000000000000001 0000000000000002 0000000000000003 0000000000000004 0000000000000005 "
      "0000000000000006 0000000000000007 000000000000000";
  CHECK(GemmAlgorithms::parse(line + "8\n").size() == 1);
  for (const std::string& bad : {line + "g\n", line + "8 9\n", line + "8\n" + line + "9\n", "x" + line + "8\n",
                                 "\n" + line + "8\n", line + "8\r\n", " " + line + "8\n"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(GemmAlgorithms::parse(bad), IoError);
  }
  CHECK_THROWS_WITH(GemmAlgorithms::parse(line + "8\n5 : 2 0\n"), Catch::Contains("line 2"));
}
