#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "tessera/config/options.hpp"
#include "tessera/config/settings.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::string ini_error(const std::string& text) {
  return usage_message([&] { parse_text(text, "a.ini"); });
}
}  // namespace

TEST_CASE("An INI file sets options, with comments, blanks, CR LF and a byte order mark") {
  const auto o = parse_text(
      "\xef\xbb\xbf# a run\r\n[shard]\r\n  strategy = hsdp-zero2 ; trailing\r\ngroup_size=4\t# four\r\n;done", "a.ini");
  CHECK(o.shard.strategy == Strategy::hsdp_zero2);
  CHECK(o.shard.group_size == 4);
}

TEST_CASE("Malformed INI files are refused with their line") {
  CHECK_THAT(ini_error("[run\nseed = 1"), Contains("a.ini:1") && Contains("[name]"));
  CHECK_THAT(ini_error("seed = 1"), Contains("a.ini:1") && Contains("before any section"));
  CHECK_THAT(ini_error("[run]\nseed 1"), Contains("a.ini:2"));
  CHECK_THAT(ini_error("[run]\nseed = 1\n[data]\n[run]\nseed = 1"),
             Contains("a.ini:5") && Contains("run.seed is set twice, first in line 2"));
  CHECK_THAT(ini_error("[run]\nname = \"open"), Contains("a.ini:2") && Contains("quoted"));
  CHECK_THAT(ini_error("[run]\nname = \"a\" b"), Contains("'b' follows a quoted value, and is not a comment"));
  CHECK_THAT(ini_error("[run]\nname = \"a\\n\""), Contains("quoted"));
  CHECK_THAT(ini_error("[run]\nname = " + std::string(5000, 'a')), Contains("at most 4096"));
  CHECK_THAT(ini_error(std::string((1 << 20) + 1, '\n')), Contains("too many for an option file"));
}

TEST_CASE("In a section of lists a value is what stands between commas") {
  const auto lists = [](const std::string& line) {
    const IniFile ini = read_ini("[sweep.vary]\n" + line, "a.ini", "sweep.vary");
    CHECK(ini.settings.at(0).key() == "run.name");
    return ini.settings.at(0).list;
  };
  using List = std::vector<std::string>;
  CHECK(lists("run.name = a, b ,c") == List{"a", "b", "c"});
  CHECK(lists("run.name = one # and a comment, really") == List{"one"});
  CHECK(lists(R"(run.name = "a, b", c#d , "e # \"f\"" ; g)") == List{"a, b", "c#d", "e # \"f\""});
  CHECK(lists(R"(run.name = "", x)") == List{"", "x"});
  const auto error = [&](const std::string& line) { return usage_message([&] { lists(line); }); };
  CHECK_THAT(error("run.name = a,,b"), Contains("a.ini:2: a value of the list is missing"));
  CHECK_THAT(error("run.name = a,"), Contains("a value of the list is missing"));
  CHECK_THAT(error("run.name = # a"), Contains("a value of the list is missing"));
  CHECK_THAT(error("run.name = \"a\" b"), Contains("'b' follows a quoted value. Use a comma"));
  CHECK_THAT(error("run.name = \"a, b"), Contains("not a whole quoted value"));
}

TEST_CASE("Sections are known in their order, with and without settings") {
  const IniFile ini =
      read_ini("[sweep.row too big]\n[run]\nname = a\n[sweep.row too big] # again\nmodel.width = 4\n", "a.ini");
  REQUIRE(ini.sections.size() == 3);
  CHECK((ini.sections[0].name == "sweep.row too big" && ini.sections[0].place == "a.ini:1"));
  CHECK(ini.sections[1].name == "run");
  CHECK(ini.sections[2].place == "a.ini:4");
  CHECK(ini.settings[1].section == "sweep.row too big");
  CHECK(ini.settings[1].key() == "model.width");
}

TEST_CASE("A value is written so that it reads back, whatever is in it") {
  for (const std::string value : {"", " ", "plain", "two words", " lead", "trail ", "a#b", "# all", "a ; b", "\"",
                                  "say \"hi\"", "back\\slash", "\\\"", "[run]", "a = b", "=", "gr\xc3\xbc\xc3\x9f"}) {
    CAPTURE(value, ini_value(value));
    const IniFile ini = read_ini("[run]\nname = " + ini_value(value) + "\nseed = 1\n", "a.ini");
    REQUIRE(ini.settings.size() == 2);
    CHECK(ini.settings[0].value == value);
    CHECK(ini.settings[1].value == "1");
  }
}
