#include "tessera/config/value_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ranges>

#include "tessera/base/decimal.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 10> kByteUnits{{{"B", 1.0},
                                           {"kB", 1e3},
                                           {"KB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"KiB", 0x1p10},
                                           {"MiB", 0x1p20},
                                           {"GiB", 0x1p30},
                                           {"TiB", 0x1p40}}};
constexpr std::array<Unit, 3> kCountUnits{{{"K", 1e3}, {"M", 1e6}, {"G", 1e9}}};
constexpr std::array<Unit, 5> kTimeUnits{{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"min", 60.0}, {"h", 3600.0}}};

/// Reads the number at the start of `text`; the text after it goes to `rest`.
std::optional<double> leading_number(std::string_view text, std::string_view& rest) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  rest = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  return value;
}

template <class Units>
std::optional<double> factor_of(std::string_view unit, const Units& units) {
  if (unit.empty()) return 1.0;
  for (const auto& known : units) {
    if (known.name == unit) return known.factor;
  }
  return std::nullopt;
}

template <class Units>
std::optional<double> number_with_unit(std::string_view text, const Units& units) {
  std::string_view unit;
  const auto value = leading_number(text, unit);
  if (!value) return std::nullopt;
  const auto factor = factor_of(unit, units);
  if (!factor || !std::isfinite(*value * *factor)) return std::nullopt;
  // Dividing by an exact 1000 rounds once, multiplying by an inexact 1e-3 twice: 1ms must read as 0.001.
  return *factor < 1.0 ? *value / std::round(1.0 / *factor) : *value * *factor;
}

/// Reads an integer, exact to the last digit: 1.005K is 1005.
template <class Units>
std::optional<std::int64_t> whole_in_units(std::string_view text, const Units& units) {
  if (const auto whole = whole_number(text)) return whole;
  std::string_view unit;
  const auto value = leading_number(text, unit);
  const auto factor = factor_of(unit, units);
  // A fraction without a unit or exponent is refused even if it is an integer: 2.0 batches are a misunderstanding.
  const bool is_plain = unit.empty() && text.find_first_of("eE") == std::string_view::npos;
  if (!value || !factor || *value < 0.0 || is_plain) return std::nullopt;
  const auto product = decimal_product(*value, static_cast<std::int64_t>(*factor));
  return product && product->exact ? std::optional(product->whole) : std::nullopt;
}

/// Reads HH:MM:SS, each part an integer, minutes and seconds below 60.
std::optional<double> clock_seconds(std::string_view text) {
  const auto first = text.find(':');
  const auto second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const auto hours = whole_number(text.substr(0, first));
  const auto minutes = whole_number(text.substr(first + 1, second - first - 1));
  const auto seconds = whole_number(text.substr(second + 1));
  if (!hours || !minutes || !seconds || *hours < 0 || *minutes < 0 || *minutes > 59 || *seconds < 0 || *seconds > 59) {
    return std::nullopt;
  }
  return static_cast<double>(*hours) * 3600.0 + static_cast<double>(*minutes * 60 + *seconds);
}

/// Writes a value in the largest of its units that leaves a whole number, or else as a plain number.
template <class Units, class Read>
std::string in_whole_units(double value, const Units& units, const Read& read) {
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    const double count = std::round(value / unit->factor);
    const std::string text = fmt::format("{:.0f}{}", count, unit->name);
    if (count >= 1 && read(text) == value) return text;
  }
  return number_text(value);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\f\v";
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::optional<std::int64_t> read_count(std::string_view text) { return whole_in_units(text, kCountUnits); }

std::optional<double> read_number(std::string_view text) {
  std::string_view rest;
  const auto value = leading_number(text, rest);
  return rest.empty() ? value : std::nullopt;
}

std::string number_text(double value) { return fmt::format("{}", value); }

std::optional<std::int64_t> read_bytes(std::string_view text) { return whole_in_units(text, kByteUnits); }

std::string exact_bytes_text(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 5> names{"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < names.size()) bytes /= 1024, ++unit;
  return fmt::format("{}{}", bytes, names[unit]);
}

namespace {

/// Reads a list with commas between its items; an empty text is an empty list.
std::optional<std::vector<std::int64_t>> read_list(std::string_view text,
                                                   std::optional<std::int64_t> (*read)(std::string_view)) {
  std::vector<std::int64_t> values;
  if (trimmed(text).empty()) return values;
  for (const std::string_view item : items_of(text)) {
    const auto value = read(trimmed(item));
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

}  // namespace

std::optional<std::vector<std::int64_t>> read_byte_list(std::string_view text) { return read_list(text, read_bytes); }
std::optional<std::vector<std::int64_t>> read_count_list(std::string_view text) { return read_list(text, read_count); }

std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    items.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return items;
}

std::string count_list_text(const std::vector<std::int64_t>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

std::string byte_list_text(const std::vector<std::int64_t>& sizes) {
  return fmt::format("{}", fmt::join(sizes | std::views::transform(exact_bytes_text), ","));
}

std::optional<double> read_seconds(std::string_view text) {
  if (text.find(':') != std::string_view::npos) return clock_seconds(text);
  return number_with_unit(text, kTimeUnits);
}

std::optional<double> read_bandwidth(std::string_view text) {
  if (text.ends_with("/s")) text.remove_suffix(2);
  return number_with_unit(text, kByteUnits);
}

std::optional<Emulation> read_emulation(std::string_view text) {
  if (text == "none") return Emulation{};
  const auto comma = text.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto latency = read_seconds(trimmed(text.substr(0, comma)));
  const auto bandwidth = read_bandwidth(trimmed(text.substr(comma + 1)));
  if (!latency || !bandwidth || *latency < 0.0 || *latency > 60.0 || *bandwidth < 0.0) return std::nullopt;
  return Emulation{.latency = *latency, .bandwidth = *bandwidth};
}

std::string emulation_text(const Emulation& emulation) {
  if (!emulation.on()) return "none";
  static constexpr std::array<Unit, 4> bytes{{{"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}};
  static constexpr std::array<Unit, 3> seconds{{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}};
  return fmt::format("{},{}", in_whole_units(emulation.latency, seconds, read_seconds),
                     in_whole_units(emulation.bandwidth, bytes, read_bandwidth));
}

std::optional<ReshardAfterForward> read_reshard(std::string_view text) {
  if (text == "true" || text == "false") return ReshardAfterForward{.drops = text == "true", .ranks = 0};
  const auto ranks = read_count(text);
  if (!ranks || *ranks < 1) return std::nullopt;
  return ReshardAfterForward{.drops = true, .ranks = *ranks};
}

std::string reshard_text(const ReshardAfterForward& reshard) {
  if (reshard.ranks > 0) return std::to_string(reshard.ranks);
  return reshard.drops ? "true" : "false";
}

std::optional<std::int64_t> read_count_or_auto(std::string_view text) {
  if (text == "auto") return kAutomaticCount;
  const auto every = read_count(text);
  return every && *every >= 0 ? every : std::nullopt;
}

std::string count_or_auto_text(std::int64_t every) { return every == kAutomaticCount ? "auto" : std::to_string(every); }

std::optional<std::int64_t> read_length(std::string_view text) {
  if (text == "fit") return kFittingLength;
  const auto length = read_count(text);
  return length && *length >= 0 && *length <= std::int64_t{1} << 31 ? length : std::nullopt;
}

std::string length_text(std::int64_t length) { return length == kFittingLength ? "fit" : std::to_string(length); }

std::optional<OffloadFraction> read_fraction(std::string_view text) {
  if (text == "fit") return OffloadFraction{.value = 1.0, .fits = true};
  const auto value = read_number(text);
  if (!value || *value < 0.0 || *value > 1.0) return std::nullopt;
  return OffloadFraction{.value = *value, .fits = false};
}

std::string fraction_text(const OffloadFraction& fraction) {
  return fraction.fits ? "fit" : number_text(fraction.value);
}

std::optional<StepRange> read_step_range(std::string_view text) {
  if (text == "none") return StepRange{};
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto first = read_count(trimmed(text.substr(0, colon)));
  const auto last = read_count(trimmed(text.substr(colon + 1)));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return StepRange{.first = *first, .last = *last};
}

std::string step_range_text(const StepRange& range) {
  return range.on() ? fmt::format("{}:{}", range.first, range.last) : "none";
}

std::optional<std::string> read_plain_text(std::string_view text) {
  return is_plain_text(text) ? std::optional(std::string(text)) : std::nullopt;
}

}  // namespace tessera
