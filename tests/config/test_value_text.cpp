#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tessera/config/value_text.hpp"
#include "tessera/base/shown.hpp"

using namespace tessera;

TEST_CASE("A double is written so that it reads back to the bit") {
  std::mt19937_64 random(4);
  int finite = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    ++finite;
    const auto read = read_number(number_text(value));
    if (!read || std::bit_cast<std::uint64_t>(*read) != std::bit_cast<std::uint64_t>(value)) FAIL(number_text(value));
  }
  CHECK(finite > 19'000);
  CHECK(number_text(3e-4) == "0.0003");
  CHECK(number_text(1.0) == "1");
  for (const char* bad : {"", " ", "1 2", "1x", "inf", "nan", "1e999", "0x10", "--1", "+1"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_number(bad));
  }
}

TEST_CASE("Resharding is true, false or a number of ranks") {
  for (const char* text : {"true", "false", "2", "1", "64"}) {
    CAPTURE(text);
    REQUIRE(read_reshard(text).has_value());
    CHECK(reshard_text(*read_reshard(text)) == text);
  }
  CHECK(read_reshard("8") == ReshardAfterForward{.drops = true, .ranks = 8});
  for (const char* bad : {"", "0", "-1", "yes", "2.5", "true ", "half"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_reshard(bad));
  }
}

TEST_CASE("Bytes are written in the largest unit that holds them exactly") {
  CHECK(exact_bytes_text(0) == "0");
  CHECK(exact_bytes_text(1023) == "1023");
  CHECK(exact_bytes_text(1024) == "1KiB");
  CHECK(exact_bytes_text((1 << 20) + 1024) == "1025KiB");
  CHECK(exact_bytes_text(std::int64_t{5000} << 40) == "5000TiB");
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    const auto bytes = static_cast<std::int64_t>(random() >> (12 + random() % 52)) << (random() % 11);
    if (read_bytes(exact_bytes_text(bytes)) != bytes) FAIL(exact_bytes_text(bytes));
  }
  const std::vector<std::int64_t> sizes{0, 7, 1 << 20, 3 << 10};
  CHECK(byte_list_text(sizes) == "0,7,1MiB,3KiB");
  CHECK(read_byte_list(byte_list_text(sizes)) == sizes);
  CHECK(read_byte_list(" 1kB , 2 MiB ") == std::vector<std::int64_t>{1000, 2 << 20});
  CHECK(read_byte_list("  ") == std::vector<std::int64_t>{});
  for (const char* bad : {",", "1,", ",1", "1,,2", "1;2", "0.3B", "1 kb"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_byte_list(bad));
  }
}

TEST_CASE("Seconds have a unit, or are a clock") {
  CHECK(read_seconds("90") == 90.0);
  CHECK(read_seconds("1ms") == 0.001);
  CHECK(read_seconds("7 us") == 7e-6);
  CHECK(read_seconds("1.5h") == 5400.0);
  CHECK(read_seconds("2min") == 120.0);
  CHECK(read_seconds("24:00:00") == 86400.0);
  CHECK(read_seconds("0:1:2") == 62.0);
  CHECK(read_seconds("100:59:59") == 363599.0);
  for (const char* bad : {"", "1d", "1:2", "1:2:3:4", "1:60:00", "1:00:60", "-1:00:00", "1:-1:0", "1: 2:3", "1e308h"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_seconds(bad));
  }
}

TEST_CASE("An emulated network is written so that it reads back") {
  for (const Emulation& emulation : {Emulation{}, Emulation{2.5e-6, 0.0}, Emulation{0.0, 12.5e9}, Emulation{1e-3, 1e9}})
    CHECK(read_emulation(emulation_text(emulation)) == emulation);
  CHECK(emulation_text({}) == "none");
  for (const char* text : {"500us,0", "2ms,1GB/s", "1s,12500MB/s", "0,100GB/s"})
    CHECK(emulation_text(*read_emulation(text)) == text);
  CHECK(emulation_text({2.5e-6, 1.5}) == "2.5e-06,1.5");
  CHECK(read_emulation("5us , 100GB/s") == Emulation{5e-6, 100e9});
  CHECK(read_bandwidth("12.5 GiB/s") == 12.5 * 0x1p30);
  for (const char* bad : {"", "1ms", "1ms,", ",1GB/s", "-1,5", "1,-5", "61,5", "1,2,3", "1GB/s,1ms"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_emulation(bad));
  }
}

TEST_CASE("A range of steps is written so that it reads back") {
  for (const StepRange& range : {StepRange{}, StepRange{1, 1}, StepRange{10, 12}})
    CHECK(read_step_range(step_range_text(range)) == range);
  CHECK(step_range_text({}) == "none");
  CHECK(read_step_range("1K : 1.5K") == StepRange{1000, 1500});
  for (const char* bad : {"", "5", "0:3", "3:2", ":3", "3:", "-1:2", "1:2:3", "a:b", "1.5:2"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_step_range(bad));
  }
}

TEST_CASE("Text for messages and files is plain, and short") {
  CHECK(is_plain_text("gr\xc3\xbc\xc3\x9f dich"));
  for (const std::string& bad : {std::string("a\tb"), std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f"),
                                 std::string("\xff"), std::string("\xc3")}) {
    CAPTURE(bad);
    CHECK_FALSE(is_plain_text(bad));
    CHECK_FALSE(read_plain_text(bad));
  }
  CHECK(in_quotes("a b") == "'a b'");
  CHECK(in_quotes("\xc3\xa9") == "'\xc3\xa9'");
  CHECK(in_quotes("\xc3\xa9\x01") == "'\\xc3\\xa9\\x01'");
  CHECK(in_quotes(std::string(80, 'x')) == "'" + std::string(80, 'x') + "'");
  CHECK(in_quotes(std::string(81, 'x')) == "'" + std::string(80, 'x') + "...'");
  CHECK(trimmed(" \t a b \r\f\v") == "a b");
  CHECK(trimmed(" \t").empty());
}
