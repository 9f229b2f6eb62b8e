#pragma once
// What writes the rows of the option table.

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options/variables_map.hpp>
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
/// bounds.
template <class S>
class Section {
 public:
  Section(std::vector<OptionEntry>& rows, S Options::*section) : rows_(rows), section_(section) {}

  void integer(const std::string& name, std::int64_t S::*member, std::int64_t low, std::int64_t high,
               const std::string& help) const {
    const auto allowed = high == kAnyCount ? fmt::format("whole number, {} or more", low)
                                           : fmt::format("whole number, {} to {}", low, high);
    const auto is_allowed = [=](std::int64_t value) { return value >= low && value <= high; };
    add<read_count>(name, member, allowed, help, is_allowed, [](std::int64_t value) { return std::to_string(value); });
  }

  void bytes(const std::string& name, std::int64_t S::*member, const std::string& help) const {
    const auto is_allowed = [](std::int64_t value) { return value >= 0; };
    add<read_bytes>(name, member, "bytes, for example 24GiB or 500MB", help, is_allowed, exact_bytes_text);
  }

  /// A list of values above 0, as `text_of` writes it.
  template <auto read>
  void list(const std::string& name, std::vector<std::int64_t> S::*member, const std::string& allowed, auto text_of,
            const std::string& help) const {
    const auto is_allowed = [](const std::vector<std::int64_t>& values) {
      return std::ranges::all_of(values, [](std::int64_t value) { return value > 0; });
    };
    add<read>(name, member, allowed, help, is_allowed, text_of);
  }

  void number(const std::string& name, double S::*member, Bounds bounds, const std::string& help) const {
    const auto is_allowed = [=](double value) { return bounds.contain(value); };
    add<read_number>(name, member, bounds.text(), help, is_allowed, number_text);
  }

  void seconds(const std::string& name, double S::*member, double low, const std::string& help) const {
    const auto allowed = fmt::format("seconds ({} or more), or with a unit: 30s, 5min, 2h, 01:30:00", low);
    const auto is_allowed = [=](double value) { return value >= low; };
    add<read_seconds>(name, member, allowed, help, is_allowed, number_text);
  }

  void text(const std::string& name, std::string S::*member, const std::string& allowed,
            const std::string& help) const {
    add<read_plain_text>(name, member, allowed, help, kAnyValue, std::identity());
  }

  /// Truth values are the choices false and true.
  template <class E>
  void choice(const std::string& name, E S::*member, const std::string& help) const {
    std::string allowed;
    for (const auto& choice : choices<E>()) allowed += (allowed.empty() ? "" : "|") + std::string(choice.name);
    add<read_choice<E>>(name, member, allowed, help, kAnyValue, spelling<E>);
  }

  /// A value of a type of its own, as `text_of` writes it.
  template <auto read, class T>
  void value(const std::string& name, T S::*member, const std::string& allowed, auto text_of,
             const std::string& help) const {
    add<read>(name, member, allowed, help, kAnyValue, text_of);
  }

 private:
  /// Adds a row whose text Boost reads by `read`, with `is_allowed` for the member; `text_of` writes it.
  template <auto read, class T>
  void add(const std::string& name, T S::*member, const std::string& allowed, const std::string& help, auto is_allowed,
           auto text_of) const {
    namespace po = boost::program_options;
    using Value = Typed<T, read>;
    const auto section = section_;
    rows_.push_back({name, allowed, help, []() -> const po::value_semantic* { return po::value<Value>(); },
                     [=](Options& options, const po::variable_value& value) {
                       const T& given = value.as<Value>().value;
                       if (is_allowed(given)) options.*section.*member = given;
                       return is_allowed(given);
                     },
                     [=](const Options& options) { return std::string(text_of(options.*section.*member)); }});
  }

  std::vector<OptionEntry>& rows_;
  S Options::*section_;
};

}  // namespace tessera
