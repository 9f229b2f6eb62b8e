#pragma once
// One row of the option table, and the makers of rows: each maker ties a name to a member of Options with its bounds.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.hpp"
#include "config/value_text.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Values that the option's grammar knows but that this version cannot do.
struct NotYet {
  bool any = false;                 ///< every value but the default
  std::vector<std::string> values;  ///< these values, as written
};

struct OptionEntry {
  std::string name;     ///< "shard.wrap"
  std::string allowed;  ///< "block|size|model", "whole number, 0 to 1024": for messages and help
  std::string help;
  NotYet not_yet;
  /// Reads text into the member; false when the text is not an allowed value.
  std::function<bool(Options&, std::string_view)> set;
  /// The member as text that `set` reads back.
  std::function<std::string(const Options&)> get;

  std::string_view section() const { return std::string_view(name).substr(0, name.find('.')); }
  std::string_view key() const { return std::string_view(name).substr(name.find('.') + 1); }
};

/// Where an option lives: a section of Options and a member of it.
template <class Section, class T>
struct Field {
  Section Options::*section;
  T Section::*member;
  T& in(Options& options) const { return options.*section.*member; }
  const T& in(const Options& options) const { return options.*section.*member; }
};
template <class Section, class T>
Field(Section Options::*, T Section::*) -> Field<Section, T>;

inline constexpr std::int64_t kAnyCount = std::numeric_limits<std::int64_t>::max();

template <class Section>
OptionEntry integer_option(std::string name, Field<Section, std::int64_t> field, std::int64_t low, std::int64_t high,
                           std::string help, NotYet not_yet = {}) {
  auto allowed = high == kAnyCount ? fmt::format("whole number, {} or more", low)
                                   : fmt::format("whole number, {} to {}", low, high);
  return {std::move(name),
          std::move(allowed),
          std::move(help),
          std::move(not_yet),
          [=](Options& options, std::string_view text) {
            const auto value = read_integer(text);
            if (!value || *value < low || *value > high) return false;
            field.in(options) = *value;
            return true;
          },
          [=](const Options& options) { return std::to_string(field.in(options)); }};
}

template <class Section>
OptionEntry bytes_option(std::string name, Field<Section, std::int64_t> field, std::string help) {
  return {std::move(name),
          "bytes, for example 24GiB or 500MB",
          std::move(help),
          {},
          [=](Options& options, std::string_view text) {
            const auto value = read_bytes(text);
            if (!value || *value < 0) return false;
            field.in(options) = *value;
            return true;
          },
          [=](const Options& options) { return exact_bytes_text(field.in(options)); }};
}

/// What bounds a number: low and high may themselves be excluded.
struct Bounds {
  double low, high;
  bool low_open = false, high_open = false;
  bool contain(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
  std::string text() const {
    if (high == std::numeric_limits<double>::infinity()) {
      return low_open ? fmt::format("number above {}", low) : fmt::format("number, {} or more", low);
    }
    return fmt::format("number, {}{} to {}{}", low_open ? "above " : "", low, high_open ? "below " : "", high);
  }
};

template <class Section>
OptionEntry number_option(std::string name, Field<Section, double> field, Bounds bounds, std::string help,
                          NotYet not_yet = {}) {
  return {std::move(name),
          bounds.text(),
          std::move(help),
          std::move(not_yet),
          [=](Options& options, std::string_view text) {
            const auto value = read_number(text);
            if (!value || !bounds.contain(*value)) return false;
            field.in(options) = *value;
            return true;
          },
          [=](const Options& options) { return number_text(field.in(options)); }};
}

template <class Section>
OptionEntry seconds_option(std::string name, Field<Section, double> field, double low, std::string help,
                           NotYet not_yet = {}) {
  return {std::move(name),
          fmt::format("seconds ({} or more), or with a unit: 30s, 5min, 2h, 01:30:00", low),
          std::move(help),
          std::move(not_yet),
          [=](Options& options, std::string_view text) {
            const auto value = read_seconds(text);
            if (!value || *value < low) return false;
            field.in(options) = *value;
            return true;
          },
          [=](const Options& options) { return number_text(field.in(options)); }};
}

template <class Section>
OptionEntry bool_option(std::string name, Field<Section, bool> field, std::string help, NotYet not_yet = {}) {
  return {std::move(name),
          "true|false",
          std::move(help),
          std::move(not_yet),
          [=](Options& options, std::string_view text) {
            const auto value = read_bool(text);
            if (!value) return false;
            field.in(options) = *value;
            return true;
          },
          [=](const Options& options) { return std::string(field.in(options) ? "true" : "false"); }};
}

template <class Section>
OptionEntry text_option(std::string name, Field<Section, std::string> field, std::string allowed, std::string help,
                        NotYet not_yet = {}) {
  return {std::move(name),
          std::move(allowed),
          std::move(help),
          std::move(not_yet),
          [=](Options& options, std::string_view text) {
            if (!is_plain_text(text)) return false;
            field.in(options) = text;
            return true;
          },
          [=](const Options& options) { return field.in(options); }};
}

template <class Section, class E>
OptionEntry choice_option(std::string name, Field<Section, E> field, std::string help, NotYet not_yet = {}) {
  std::string allowed;
  for (const auto& choice : choices<E>()) {
    if (std::ranges::find(not_yet.values, choice.name) != not_yet.values.end()) continue;
    allowed += (allowed.empty() ? "" : "|") + std::string(choice.name);
  }
  return {std::move(name),
          std::move(allowed),
          std::move(help),
          std::move(not_yet),
          [=](Options& options, std::string_view text) {
            for (const auto& choice : choices<E>()) {
              if (choice.name == text) return field.in(options) = choice.value, true;
            }
            return false;
          },
          [=](const Options& options) {
            for (const auto& choice : choices<E>()) {
              if (choice.value == field.in(options)) return std::string(choice.name);
            }
            throw InternalError("an option holds a value outside its choices");
          }};
}

}  // namespace tessera
