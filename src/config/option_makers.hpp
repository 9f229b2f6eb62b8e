#pragma once
// The makers of the option table's rows: each ties a name to a member of Options, with its type and bounds.

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options/variables_map.hpp>
#include <concepts>
#include <functional>
#include <limits>
#include <vector>

#include "config/option_entry.hpp"
#include "config/value_text.hpp"
#include "tessera/config/choices.hpp"

namespace tessera {

/// A T as `read` finds it in text: so integers, bytes and seconds differ in their type.
template <class T, auto read>
struct Typed {
  T value;
};

/// Boost finds this reader of an option's text by the type of its value.
template <class T, auto read>
void validate(boost::any& out, const std::vector<std::string>& texts, Typed<T, read>*, int) {
  using boost::program_options::validation_error;
  const auto value = read(texts.at(0));
  if (!value) throw validation_error(validation_error::invalid_option_value);
  out = Typed<T, read>{*value};
}

/// The place of an option: a section of Options and a member of it.
template <class Section, class T>
struct Field {
  using Value = T;
  Section Options::*section;
  T Section::*member;
  T& in(Options& options) const { return options.*section.*member; }
  const T& in(const Options& options) const { return options.*section.*member; }
};
template <class Section, class T>
Field(Section Options::*, T Section::*) -> Field<Section, T>;

template <class F, class T>
concept FieldOf = std::same_as<typename F::Value, T>;

inline constexpr std::int64_t kAnyCount = std::numeric_limits<std::int64_t>::max();
inline constexpr auto kAnyValue = [](const auto&) { return true; };

/// Makes a row whose text Boost reads by `read`, with `is_allowed` for the member in `field`; `text` writes the member.
template <auto read, class Section, class T>
OptionEntry typed_option(const std::string& name, Field<Section, T> field, const std::string& allowed,
                         const std::string& help, auto is_allowed, auto text) {
  namespace po = boost::program_options;
  using Value = Typed<T, read>;
  return {name,
          allowed,
          help,
          []() -> const po::value_semantic* { return po::value<Value>(); },
          [=](Options& options, const po::variable_value& value) {
            const T& given = value.as<Value>().value;
            if (is_allowed(given)) field.in(options) = given;
            return is_allowed(given);
          },
          [=](const Options& options) { return std::string(text(field.in(options))); }};
}

OptionEntry integer_option(const std::string& name, FieldOf<std::int64_t> auto field, std::int64_t low,
                           std::int64_t high, const std::string& help) {
  const auto allowed = high == kAnyCount ? fmt::format("whole number, {} or more", low)
                                         : fmt::format("whole number, {} to {}", low, high);
  const auto is_allowed = [=](std::int64_t value) { return value >= low && value <= high; };
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  return typed_option<read_count>(name, field, allowed, help, is_allowed, text);
}

OptionEntry bytes_option(const std::string& name, FieldOf<std::int64_t> auto field, const std::string& help) {
  const auto is_allowed = [](std::int64_t value) { return value >= 0; };
  const auto* allowed = "bytes, for example 24GiB or 500MB";
  return typed_option<read_bytes>(name, field, allowed, help, is_allowed, exact_bytes_text);
}

/// Makes a row of sizes with commas between them; none of them 0.
template <class Section>
OptionEntry byte_list_option(std::string name, Field<Section, std::vector<std::int64_t>> field, std::string help) {
  const auto is_allowed = [](const std::vector<std::int64_t>& values) {
    return std::ranges::all_of(values, [](std::int64_t value) { return value > 0; });
  };
  return typed_option<read_byte_list>(std::move(name), field, "list of bytes above 0, for example 1MB,10MB",
                                      std::move(help), is_allowed, byte_list_text);
}

/// Makes a row of whole numbers above 0 with commas between them.
template <class Section>
OptionEntry count_list_option(std::string name, Field<Section, std::vector<std::int64_t>> field, std::string help) {
  const auto is_allowed = [](const std::vector<std::int64_t>& values) {
    return std::ranges::all_of(values, [](std::int64_t value) { return value > 0; });
  };
  return typed_option<read_count_list>(std::move(name), field, "list of whole numbers above 0, for example 1,2,4",
                                       std::move(help), is_allowed, count_list_text);
}

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

OptionEntry number_option(const std::string& name, FieldOf<double> auto field, Bounds bounds, const std::string& help) {
  const auto is_allowed = [=](double value) { return bounds.contain(value); };
  return typed_option<read_number>(name, field, bounds.text(), help, is_allowed, number_text);
}

OptionEntry seconds_option(const std::string& name, FieldOf<double> auto field, double low, const std::string& help) {
  const auto allowed = fmt::format("seconds ({} or more), or with a unit: 30s, 5min, 2h, 01:30:00", low);
  const auto is_allowed = [=](double value) { return value >= low; };
  return typed_option<read_seconds>(name, field, allowed, help, is_allowed, number_text);
}

OptionEntry text_option(const std::string& name, FieldOf<std::string> auto field, const std::string& allowed,
                        const std::string& help) {
  return typed_option<read_plain_text>(name, field, allowed, help, kAnyValue, std::identity());
}

/// Truth values are the choices false and true.
template <class Section, class E>
OptionEntry choice_option(const std::string& name, Field<Section, E> field, const std::string& help) {
  std::string allowed;
  for (const auto& choice : choices<E>()) allowed += (allowed.empty() ? "" : "|") + std::string(choice.name);
  return typed_option<read_choice<E>>(name, field, allowed, help, kAnyValue, spelling<E>);
}

OptionEntry step_range_option(const std::string& name, FieldOf<StepRange> auto field, const std::string& help) {
  const auto* allowed = "none, or a:b, steps from 1 such as 10:12";
  return typed_option<read_step_range>(name, field, allowed, help, kAnyValue, step_range_text);
}

OptionEntry emulation_option(const std::string& name, FieldOf<Emulation> auto field, const std::string& help) {
  const auto* allowed = "none, or latency,bandwidth such as 1ms,2GB/s";
  return typed_option<read_emulation>(name, field, allowed, help, kAnyValue, emulation_text);
}

OptionEntry reshard_option(const std::string& name, FieldOf<ReshardAfterForward> auto field, const std::string& help) {
  return typed_option<read_reshard>(name, field, "true|false|N ranks", help, kAnyValue, reshard_text);
}

OptionEntry fraction_option(const std::string& name, FieldOf<OffloadFraction> auto field, const std::string& help) {
  return typed_option<read_fraction>(name, field, "number, 0 to 1, or fit", help, kAnyValue, fraction_text);
}

}  // namespace tessera
