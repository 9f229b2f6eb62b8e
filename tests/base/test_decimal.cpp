#include <catch2/catch.hpp>
#include <limits>

#include "tessera/base/decimal.hpp"

using namespace tessera;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

bool is(const std::optional<WholePart>& found, std::int64_t whole, bool exact) {
  return found && found->whole == whole && found->exact == exact;
}

}  // namespace

TEST_CASE("A whole number is digits and nothing else") {
  CHECK(whole_number("0042") == 42);
  CHECK(whole_number("-7") == -7);
  CHECK(whole_number("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  for (const char* const text : {"", " 1", "1 ", "+1", "1.0", "1e3", "1K", "9223372036854775808"})
    CHECK_FALSE(whole_number(text).has_value());
}

TEST_CASE("Products of decimal numbers are what their digits say") {
  CHECK(is(decimal_product(0.07, 100), 7, true));
  CHECK(is(decimal_product(0.29, 100), 29, true));
  CHECK(is(decimal_product(1.005, 1000), 1005, true));
  CHECK(is(decimal_product(0.1, 3), 0, false));
  CHECK(is(decimal_product(1e6, 1), 1'000'000, true));
  CHECK(is(decimal_product(2.5, 7, 5), 3, false));
  CHECK(is(decimal_product(0.0, kMost, 1), 0, true));
  CHECK(is(decimal_product(1.0, kMost, 1), kMost, true));
  CHECK(is(decimal_product(1e300, 0, 1), 0, true));
  CHECK(is(decimal_product(1e18, kMost, kMost), 1'000'000'000'000'000'000, true));
  CHECK(is(decimal_product(5e-324, kMost, 1), 0, false));
  CHECK_FALSE(decimal_product(1e19, 1));
  CHECK_FALSE(decimal_product(1.1, kMost));
  CHECK_FALSE(decimal_product(std::numeric_limits<double>::max(), kMost, kMost));
}
