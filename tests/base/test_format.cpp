#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/format.hpp"

using namespace tessera;

TEST_CASE("bytes are shown with three digits and a unit") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(999) == "999 B");
  CHECK(format_bytes(1000) == "1.00 kB");
  CHECK(format_bytes(1'536'000'000) == "1.54 GB");
  CHECK(format_bytes(15'400'000) == "15.4 MB");
  CHECK(format_bytes(154'000'000) == "154 MB");
  CHECK(format_bytes(9'994'999) == "9.99 MB");
  CHECK(format_bytes(9'995'001) == "10.0 MB");
  CHECK(format_bytes(99'960'000) == "100 MB");
  CHECK(format_bytes(999'600'000) == "1.00 GB");
  CHECK(format_bytes(-2'500'000) == "-2.50 MB");
  CHECK(format_bytes(INT64_MAX) == "9.22 EB");
  CHECK(format_bytes(INT64_MIN) == "-9.22 EB");
}

TEST_CASE("counts are shown with four digits") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1K");
  CHECK(format_count(64'000) == "64K");
  CHECK(format_count(124'439'808) == "124.4M");
  CHECK(format_count(1'557'611'200) == "1.558B");
  CHECK(format_count(999'960'000) == "1B");
  CHECK(format_count(-1500) == "-1.5K");
}

TEST_CASE("rates are shown with three digits") {
  CHECK(format_rate(0) == "0");
  CHECK(format_rate(4.266) == "4.27");
  CHECK(format_rate(334.6) == "335");
  CHECK(format_rate(999.7) == "1.00K");
  CHECK(format_rate(12345) == "12.3K");
  CHECK(format_rate(std::nan("")) == "nan");
  CHECK(format_rate(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("durations go from microseconds to days") {
  CHECK(format_seconds(0) == "0 s");
  CHECK(format_seconds(250e-6) == "250 us");
  CHECK(format_seconds(0.9996e-3) == "1 ms");
  CHECK(format_seconds(0.8123) == "812 ms");
  CHECK(format_seconds(0.99960) == "1 s");
  CHECK(format_seconds(4.266) == "4.27 s");
  CHECK(format_seconds(42.66) == "42.7 s");
  CHECK(format_seconds(59.96) == "1 min 00 s");
  CHECK(format_seconds(192.3) == "3 min 12 s");
  CHECK(format_seconds(3599.6) == "1 h 00 min");
  CHECK(format_seconds(2 * 3600 + 5 * 60) == "2 h 05 min");
  CHECK(format_seconds(86399) == "1 d 00 h");
  CHECK(format_seconds(3 * 86400 + 4 * 3600) == "3 d 04 h");
  CHECK(format_seconds(-1.5) == "-1.5 s");
  CHECK(format_seconds(std::nan("")) == "?");
  CHECK(format_seconds(1e300) != "");
}

TEST_CASE("shares and times") {
  CHECK(format_percent(0.0412) == "4.1%");
  CHECK(format_percent(0.5) == "50%");
  CHECK(format_percent(0.0996) == "10%");
  CHECK(format_percent(std::nan("")) == "?");
  CHECK(format_utc(0) == "1970-01-01T00:00:00Z");
  CHECK(format_utc(1700000000.9) == "2023-11-14T22:13:20Z");
  CHECK(format_utc(-1) == "1969-12-31T23:59:59Z");
  CHECK(format_utc(1e300) == "?");
}

TEST_CASE("lists have a separator between their elements, and none for what is left out") {
  CHECK(joined(std::vector<std::string>{}).empty());
  CHECK(joined(std::vector<std::string>{"", "a", "", "b c", ""}) == "a, b c");
  const auto odd = [](int number) { return number % 2 == 0 ? "" : std::to_string(number); };
  CHECK(joined(std::vector{1, 2, 3, 4, 5}, odd, "; ") == "1; 3; 5");
}

TEST_CASE("what is shown is the value, rounded, in few characters") {
  std::mt19937_64 random(9);
  const std::string units = " kMGTPE";
  for (int round = 0; round < 20000; ++round) {
    const auto bytes = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    const std::string text = format_bytes(bytes);
    if (text.size() > 7) FAIL(bytes << " " << text);
    const char letter = text[text.find(' ') + 1];
    const double scale = letter == 'B' ? 1.0 : std::pow(1000.0, static_cast<double>(units.find(letter)));
    const double shown = std::stod(text) * scale;
    if (std::abs(shown - static_cast<double>(bytes)) > 0.0051 * static_cast<double>(bytes)) FAIL(bytes << " " << text);
  }
  SUCCEED();
}
