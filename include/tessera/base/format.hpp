#pragma once
// Human-readable numbers: short, with a unit, in one fixed form; and lists of texts.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tessera {

/// Formats with decimal units and three significant digits: "512 B", "1.54 GB", "154 MB". Negative values keep their
/// sign.
std::string format_bytes(std::int64_t bytes);

/// Formats four significant digits without trailing zeros: "999", "64K", "124.4M", "1.558B".
std::string format_count(std::int64_t count);

/// Formats every digit of a count: "76,294".
std::string with_commas(std::int64_t count);

/// As format_count, for rates: three significant digits, "4.27", "335", "12.3K"; "nan" and "inf" as such.
std::string format_rate(double per_second);

/// Formats a duration: "0 s", "250 us", "812 ms", "4.27 s", "42.7 s", "3 min 12 s", "2 h 05 min", "3 d 04 h". "?" if it
/// is not finite.
std::string format_seconds(double seconds);

/// Formats a share as a percentage: 0.0412 is "4.1%", 0.5 is "50%"; "?" if it is not finite.
std::string format_percent(double share);

/// Formats "1 rank", "2 ranks".
std::string counted(std::int64_t count, std::string_view noun);

/// Formats seconds since 1970 as UTC in ISO 8601, "2026-01-31T12:00:00Z"; "?" if it is not finite or beyond the year
/// 9999.
std::string format_utc(double unix_time);

/// Returns the texts that `text_of` makes of the elements, with `separator` between them. Empty ones are left out.
template <class Range, class TextOf = std::identity>
std::string joined(const Range& elements, TextOf text_of = {}, std::string_view separator = ", ") {
  std::string all;
  for (const auto& element : elements) {
    const std::string text(std::invoke(text_of, element));
    if (!text.empty() && !all.empty()) all += separator;
    all += text;
  }
  return all;
}

}  // namespace tessera
