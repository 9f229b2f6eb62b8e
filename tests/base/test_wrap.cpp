#include <catch2/catch.hpp>
#include <random>
#include <sstream>

#include "tessera/base/wrap.hpp"

using namespace tessera;

TEST_CASE("Lines are broken between words, names stay with their values, and lists are broken at bars") {
  CHECK(wrapped("memory     one two three four", 11, 20) == "memory     one two\n           three\n           four");
  CHECK(wrapped("resolved   a.b = 1, c.d = 2", 11, 20) == "resolved   a.b = 1,\n           c.d = 2");
  CHECK(wrapped("  aa|bb|cc|dd", 2, 8) == "  aa|bb|\n  cc|dd");
  CHECK(wrapped("short\n\nlines\n", 4, 8) == "short\n\nlines\n");
  CHECK(wrapped("a /path/that/is/too/long b", 2, 8) == "a /path/that/is/too/long\n  b");
}

TEST_CASE("Nothing is lost or split by wrapping, and every line fits that has two words") {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (auto words = random() % 30; words > 0; --words)
      text += std::string(1 + random() % 9, 'a') + (random() % 8 == 0 ? "\n" : " ");
    const std::string out = wrapped(text, 3, 20);
    std::istringstream before(text), after(out), lines(out);
    std::string one, other;
    while (before >> one) CHECK((after >> other && one == other));
    CHECK_FALSE(after >> other);
    while (std::getline(lines, one)) CHECK((one.size() <= 20 || one.find(' ', 3) == std::string::npos));
  }
}
