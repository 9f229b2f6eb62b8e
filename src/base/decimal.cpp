#include "tessera/base/decimal.hpp"

#include <array>
#include <charconv>
#include <limits>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

__extension__ typedef unsigned __int128 Wide;

/// digits x 10^exponent
struct Decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
};

Decimal shortest_decimal(double value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  Decimal decimal;
  const char* at = text.data();
  for (bool fraction = false; *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    decimal.digits = decimal.digits * 10 + static_cast<std::uint64_t>(*at - '0');
    if (fraction) --decimal.exponent;
  }
  int exponent = 0;
  ++at;
  std::from_chars(*at == '+' ? at + 1 : at, written.ptr, exponent);
  decimal.exponent += exponent;
  return decimal;
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::optional<WholePart> decimal_product(double value, std::int64_t factor, std::int64_t divisor) {
  TESSERA_ASSERT(value >= 0.0 && value <= std::numeric_limits<double>::max() && factor >= 0 && divisor >= 1,
                 "{} x {} / {}", value, factor, divisor);
  constexpr auto most = static_cast<Wide>(std::numeric_limits<std::int64_t>::max());
  const Decimal decimal = shortest_decimal(value);
  Wide numerator = static_cast<Wide>(decimal.digits) * static_cast<Wide>(factor);  // below 2^57 x 2^63
  auto denominator = static_cast<Wide>(divisor);
  if (numerator == 0) return WholePart{0, true};
  for (int power = decimal.exponent; power > 0; --power) {
    // The quotient cannot shrink, so beyond this it does not fit 63 bits.
    if (numerator / denominator > most || __builtin_mul_overflow(numerator, Wide{10}, &numerator)) return std::nullopt;
  }
  for (int power = decimal.exponent; power < 0; ++power) {
    if (__builtin_mul_overflow(denominator, Wide{10}, &denominator)) return WholePart{0, false};  // above 2^120
  }
  const Wide whole = numerator / denominator;
  if (whole > most) return std::nullopt;
  return WholePart{static_cast<std::int64_t>(whole), whole * denominator == numerator};
}

}  // namespace tessera
