#pragma once
// Makers of the rows of the option table.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "config/option_entry.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/config/value_text.hpp"

namespace tessera {

inline constexpr std::int64_t kAnyCount = std::numeric_limits<std::int64_t>::max();
inline constexpr auto kAnyValue = [](const auto&) { return true; };

/// The bounds of a number: low and high may themselves be excluded.
struct Bounds {
  double low, high;
  bool low_open = false, high_open = false;
  bool contain(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
  std::string text() const {
    if (high == std::numeric_limits<double>::infinity())
      return low_open ? fmt::format("number above {}", low) : fmt::format("number, {} or more", low);
    return fmt::format("number, {}{} to {}{}", low_open ? "above " : "", low, high_open ? "below " : "", high);
  }
};

/// Adds rows to the option table: options of one section of Options. Each is tied to its member, with its type and
/// bounds. Unless a row says otherwise, `readers` read it. The returned row is valid until the next one is added.
template <class S>
class Section {
 public:
  Section(std::vector<OptionEntry>& rows, S Options::*section, Readers readers)
      : rows_(rows), section_(section), readers_(readers) {}

  OptionEntry& integer(const std::string& name, std::int64_t S::*member, std::int64_t low, std::int64_t high,
                       const std::string& help) const {
    const auto allowed = high == kAnyCount ? fmt::format("whole number, {} or more", low)
                                           : fmt::format("whole number, {} to {}", low, high);
    const auto is_allowed = [=](std::int64_t value) { return value >= low && value <= high; };
    return add<read_count>(name, member, allowed, help, is_allowed,
                           [](std::int64_t value) { return std::to_string(value); });
  }

  OptionEntry& bytes(const std::string& name, std::int64_t S::*member, const std::string& help) const {
    const auto is_allowed = [](std::int64_t value) { return value >= 0; };
    return add<read_bytes>(name, member, "bytes, for example 24GiB or 500MB", help, is_allowed, exact_bytes_text);
  }

  /// A list of values above 0, as `text_of` writes it.
  template <auto read>
  OptionEntry& list(const std::string& name, std::vector<std::int64_t> S::*member, const std::string& allowed,
                    auto text_of, const std::string& help) const {
    const auto is_allowed = [](const std::vector<std::int64_t>& values) {
      return std::ranges::all_of(values, [](std::int64_t value) { return value > 0; });
    };
    return add<read>(name, member, allowed, help, is_allowed, text_of);
  }

  OptionEntry& number(const std::string& name, double S::*member, Bounds bounds, const std::string& help) const {
    const auto is_allowed = [=](double value) { return bounds.contain(value); };
    return add<read_number>(name, member, bounds.text(), help, is_allowed, number_text);
  }

  OptionEntry& seconds(const std::string& name, double S::*member, double low, const std::string& help) const {
    const auto allowed = fmt::format("seconds ({} or more), or with a unit: 30s, 5min, 2h, 01:30:00", low);
    const auto is_allowed = [=](double value) { return value >= low; };
    return add<read_seconds>(name, member, allowed, help, is_allowed, number_text);
  }

  OptionEntry& text(const std::string& name, std::string S::*member, const std::string& allowed,
                    const std::string& help) const {
    return add<read_plain_text>(name, member, allowed, help, kAnyValue, std::identity());
  }

  /// Truth values are the choices false and true.
  template <class E>
  OptionEntry& choice(const std::string& name, E S::*member, const std::string& help) const {
    return add<read_choice<E>>(name, member, joined(choices<E>(), &Choice<E>::name, "|"), help, kAnyValue, spelling<E>);
  }

  /// A value of any other type, as `text_of` writes it.
  template <auto read, class T>
  OptionEntry& value(const std::string& name, T S::*member, const std::string& allowed, auto text_of,
                     const std::string& help) const {
    return add<read>(name, member, allowed, help, kAnyValue, text_of);
  }

 private:
  /// Adds a row whose text `read` reads, with `is_allowed` for the member; `text_of` writes it.
  template <auto read, class T>
  OptionEntry& add(const std::string& name, T S::*member, const std::string& allowed, const std::string& help,
                   auto is_allowed, auto text_of) const {
    const auto section = section_;
    rows_.push_back({name, typeid(T), allowed, help, readers_,
                     [=](Options& options, std::string_view given) {
                       const auto value = read(given);
                       if (!value || !is_allowed(*value)) return false;
                       options.*section.*member = *value;
                       return true;
                     },
                     [=](const Options& options) { return std::string(text_of(options.*section.*member)); }});
    return rows_.back();
  }

  std::vector<OptionEntry>& rows_;
  S Options::*section_;
  Readers readers_;
};

}  // namespace tessera
