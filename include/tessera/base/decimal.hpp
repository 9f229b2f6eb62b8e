#pragma once
// Decimal numbers as they are written. 0.07 x 100 is 7, although no double is 0.07.

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

/// Parses a text that consists only of an integer's digits; nothing for other texts, and beyond 63 bits.
std::optional<std::int64_t> whole_number(std::string_view text);

/// A number rounded down, and whether nothing was lost.
struct WholePart {
  std::int64_t whole;
  bool exact;
};

/// Returns value * factor / divisor for value >= 0, factor >= 0, divisor >= 1. `value` stands for the decimal number of
/// its shortest text. Computed exactly; nothing when the whole part does not fit 63 bits.
std::optional<WholePart> decimal_product(double value, std::int64_t factor, std::int64_t divisor = 1);

}  // namespace tessera
