#include "tessera/base/format.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <ctime>

namespace tessera {

namespace {

/// Formats `value` >= 0 with `digits` significant digits and no exponent, trailing zeros dropped on demand.
std::string significant(double value, int digits, bool keep_zeros) {
  int before_point = 1;
  for (double limit = 10; before_point < digits && value >= limit - 0.5 * std::pow(10, before_point - digits);
       limit *= 10) {
    ++before_point;
  }
  std::string text = fmt::format("{:.{}f}", value, digits - before_point);
  if (!keep_zeros && text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

/// Divides by 1000 until the rest prints below 1000; returns how often.
template <std::size_t N>
std::size_t scale(double& value, int digits, const std::array<const char*, N>&) {
  const double limit = 1000.0 - 0.5 * std::pow(10, 3 - digits);  // from here on rounding would print 1000
  std::size_t unit = 0;
  while (unit + 1 < N && value >= (unit == 0 ? 1000.0 : limit)) {
    value /= 1000.0;
    ++unit;
  }
  return unit;
}

std::string with_unit(double magnitude, int digits, bool keep_zeros, const char* sign) {
  static constexpr std::array<const char*, 7> units = {"", "K", "M", "B", "T", "P", "E"};
  const std::size_t unit = scale(magnitude, digits, units);
  return fmt::format("{}{}{}", sign, significant(magnitude, digits, keep_zeros && unit > 0), units[unit]);
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<const char*, 7> units = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  const char* sign = bytes < 0 ? "-" : "";
  double magnitude = std::abs(static_cast<double>(bytes));
  const std::size_t unit = scale(magnitude, 3, units);
  return fmt::format("{}{} {}", sign, unit == 0 ? fmt::format("{:.0f}", magnitude) : significant(magnitude, 3, true),
                     units[unit]);
}

std::string with_commas(std::int64_t count) {
  std::string text = std::to_string(count);
  for (auto at = std::ssize(text) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string format_count(std::int64_t count) {
  return with_unit(std::abs(static_cast<double>(count)), 4, false, count < 0 ? "-" : "");
}

std::string format_rate(double per_second) {
  if (!std::isfinite(per_second)) return fmt::format("{}", per_second);
  const double magnitude = std::abs(per_second);
  const char* sign = per_second < 0 ? "-" : "";
  if (magnitude >= 999.5 && magnitude < 1000.0) return with_unit(1000.0, 3, true, sign);
  return with_unit(magnitude, 3, true, sign);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0) return fmt::format("-{}", format_seconds(-seconds));
  if (seconds < 0.5e-6) return "0 s";
  if (seconds < 0.9995e-3) return significant(seconds * 1e6, 3, false) + " us";
  if (seconds < 0.9995) return significant(seconds * 1e3, 3, false) + " ms";
  if (seconds < 59.95) return significant(seconds, 3, false) + " s";
  if (seconds > 9e15) return fmt::format("{:.3g} d", seconds / 86400.0);
  const std::int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const std::int64_t minutes = std::llround(seconds / 60.0);
  if (minutes < std::int64_t{24} * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  const std::int64_t hours = std::llround(seconds / 3600.0);
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

std::string format_percent(double share) {
  if (!std::isfinite(share)) return "?";
  const double percent = share * 100.0;
  return std::abs(percent) < 9.95 ? fmt::format("{:.1f}%", percent) : fmt::format("{:.0f}%", percent);
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string format_utc(double unix_time) {
  if (!std::isfinite(unix_time) || unix_time < -62135596800.0 || unix_time >= 253402300800.0) return "?";
  const auto seconds = static_cast<std::time_t>(std::floor(unix_time));
  return fmt::format("{:%FT%TZ}", fmt::gmtime(seconds));
}

}  // namespace tessera
