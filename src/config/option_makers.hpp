#pragma once
// The makers of the option table's rows: each ties a name to a member of Options, with its type and bounds.

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options/variables_map.hpp>
#include <limits>
#include <vector>

#include "config/choices.hpp"
#include "config/option_entry.hpp"
#include "config/value_text.hpp"

namespace tessera {

/// A T as `read` finds it in text: so whole numbers, bytes and seconds differ in their type.
template <class T, auto read>
struct Typed {
  T value;
  operator const T&() const { return value; }
};

/// Boost finds this reader of an option's text by the type of its value.
template <class T, auto read>
void validate(boost::any& out, const std::vector<std::string>& texts, Typed<T, read>*, int) {
  using boost::program_options::validation_error;
  const auto value = read(texts.at(0));
  if (!value) throw validation_error(validation_error::invalid_option_value);
  out = Typed<T, read>{*value};
}

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

/// A row whose text Boost reads by `read`, with `is_allowed` for the member in `field`; `text` writes the member.
template <auto read, class Section, class T, class Allowed, class Text>
OptionEntry typed_option(std::string name, Field<Section, T> field, std::string allowed, std::string help,
                         Allowed is_allowed, Text text) {
  namespace po = boost::program_options;
  using Value = Typed<T, read>;
  return {std::move(name),
          std::move(allowed),
          std::move(help),
          []() -> const po::value_semantic* { return po::value<Value>(); },
          [=](Options& options, const po::variable_value& value) {
            const T& given = value.as<Value>();
            if (is_allowed(given)) field.in(options) = given;
            return is_allowed(given);
          },
          [=](const Options& options) { return std::string(text(field.in(options))); }};
}

inline constexpr auto kAnyValue = [](const auto&) { return true; };

template <class Section>
OptionEntry integer_option(std::string name, Field<Section, std::int64_t> field, std::int64_t low, std::int64_t high,
                           std::string help) {
  const auto allowed = high == kAnyCount ? fmt::format("whole number, {} or more", low)
                                         : fmt::format("whole number, {} to {}", low, high);
  const auto is_allowed = [=](std::int64_t value) { return value >= low && value <= high; };
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  return typed_option<read_count>(std::move(name), field, allowed, std::move(help), is_allowed, text);
}

template <class Section>
OptionEntry bytes_option(std::string name, Field<Section, std::int64_t> field, std::string help) {
  const auto is_allowed = [](std::int64_t value) { return value >= 0; };
  return typed_option<read_bytes>(std::move(name), field, "bytes, for example 24GiB or 500MB", std::move(help),
                                  is_allowed, exact_bytes_text);
}

/// Sizes with commas between them; none of them 0.
template <class Section>
OptionEntry byte_list_option(std::string name, Field<Section, std::vector<std::int64_t>> field, std::string help) {
  const auto is_allowed = [](const std::vector<std::int64_t>& values) {
    return std::ranges::all_of(values, [](std::int64_t value) { return value > 0; });
  };
  return typed_option<read_byte_list>(std::move(name), field, "list of bytes above 0, for example 1MB,10MB",
                                      std::move(help), is_allowed, byte_list_text);
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
OptionEntry number_option(std::string name, Field<Section, double> field, Bounds bounds, std::string help) {
  const auto is_allowed = [=](double value) { return bounds.contain(value); };
  return typed_option<read_number>(std::move(name), field, bounds.text(), std::move(help), is_allowed, number_text);
}

template <class Section>
OptionEntry seconds_option(std::string name, Field<Section, double> field, double low, std::string help) {
  const auto allowed = fmt::format("seconds ({} or more), or with a unit: 30s, 5min, 2h, 01:30:00", low);
  const auto is_allowed = [=](double value) { return value >= low; };
  return typed_option<read_seconds>(std::move(name), field, allowed, std::move(help), is_allowed, number_text);
}

template <class Section>
OptionEntry bool_option(std::string name, Field<Section, bool> field, std::string help) {
  const auto text = [](bool value) { return value ? "true" : "false"; };
  return typed_option<read_bool>(std::move(name), field, "true|false", std::move(help), kAnyValue, text);
}

template <class Section>
OptionEntry text_option(std::string name, Field<Section, std::string> field, std::string allowed, std::string help) {
  const auto text = [](const std::string& value) { return value; };
  return typed_option<read_plain_text>(std::move(name), field, std::move(allowed), std::move(help), kAnyValue, text);
}

template <class Section, class E>
OptionEntry choice_option(std::string name, Field<Section, E> field, std::string help) {
  std::string allowed;
  for (const auto& choice : choices<E>()) allowed += (allowed.empty() ? "" : "|") + std::string(choice.name);
  const auto text = [](E value) { return name_of(value); };
  return typed_option<read_choice<E>>(std::move(name), field, std::move(allowed), std::move(help), kAnyValue, text);
}

template <class Section>
OptionEntry emulation_option(std::string name, Field<Section, Emulation> field, std::string help) {
  return typed_option<read_emulation>(std::move(name), field, "none, or latency,bandwidth such as 1ms,2GB/s",
                                      std::move(help), kAnyValue, emulation_text);
}

}  // namespace tessera
