#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "config/option_table.hpp"
#include "tessera/config/removed_options.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

/// Returns an INI file with one option.
std::string ini_of(const RemovedOption& removed, std::string_view value) {
  const std::string name(removed.name);
  const std::size_t dot = name.find('.');
  return fmt::format("[{}]\n{} = {}\n", name.substr(0, dot), name.substr(dot + 1), value);
}

}  // namespace

TEST_CASE("Options of earlier versions are dropped at their old defaults, in files and on command lines") {
  for (const RemovedOption& removed : removed_options()) {
    CAPTURE(removed.name);
    CHECK(find_option(removed.name) == nullptr);
    const std::string word = fmt::format("--{}", removed.name), value(removed.by_default);
    for (const Options& options : {parse_text(ini_of(removed, value), "a.ini"), parse_arguments({word + "=" + value}),
                                   parse_arguments({word, value})}) {
      CHECK(options == Options());
      CHECK_FALSE(options.is_given(removed.name));
      CHECK_THAT(dropped_line(options), Contains(fmt::format("dropped {} = {}", removed.name, value)));
      CHECK(write_ini(options).find(ini_of(removed, value).substr(3)) == std::string::npos);
    }
    CHECK(read_option(Readers::plan, removed.name));
  }
  CHECK(dropped_line(parse_arguments({"--train.steps=3"})).empty());
}

TEST_CASE("Other values of theirs are refused with what to do instead") {
  for (const RemovedOption& removed : removed_options()) {
    CAPTURE(removed.name);
    const std::string word = fmt::format("--{}", removed.name), name(removed.name), instead(removed.instead);
    CHECK_THAT(error_of({word + "=other"}), Contains(name + " = 'other' does not work any more. " + instead + "."));
    CHECK_THAT(error_of({word, "--train.steps=3"}), Contains(name + " has no value") && Contains(instead));
    CHECK_THAT(usage_message([&] { parse_text(ini_of(removed, "other"), "a.ini"); }),
               Contains("a.ini:2: " + name) && Contains(instead));
  }
}
