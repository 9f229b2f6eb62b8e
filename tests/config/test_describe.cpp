#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "config/check.hpp"
#include "config/option_table.hpp"
#include "sanitized.hpp"
#include "temporary_folder.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/validate.hpp"

using namespace tessera;
using Catch::Contains;
using tessera::testing::kSanitized;
using tessera::testing::TemporaryFolder;

namespace {

/// Returns a random text that option `row` may accept; often one that it must refuse.
std::string random_value(const OptionEntry& row, std::mt19937_64& random) {
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  if (row.allowed.find('|') != std::string::npos) {
    std::vector<std::string> parts;
    std::string rest = row.allowed + "|";
    for (std::size_t at; (at = rest.find('|')) != std::string::npos; rest.erase(0, at + 1))
      parts.push_back(rest.substr(0, at));
    return parts[pick(parts.size())];
  }
  if (row.allowed.starts_with("whole")) return std::to_string(random() >> (1 + pick(62)));
  if (row.allowed.starts_with("bytes")) return std::to_string((random() >> (2 + pick(60))) & ~((1ULL << pick(45)) - 1));
  if (row.allowed.starts_with("list of bytes")) return fmt::format("{}KiB,{}", 1 + pick(100), pick(1 << 20));
  if (row.allowed.starts_with("list of whole")) return fmt::format("{},{}", 1 + pick(100), pick(1 << 20));
  if (row.allowed.starts_with("number") || row.allowed.starts_with("seconds")) {
    const double value =
        std::ldexp(static_cast<double>(random() >> 11), -53 + static_cast<int>(pick(8)) * (pick(2) ? 1 : -1));
    return fmt::format("{}", value);
  }
  if (row.allowed.find("latency") != std::string::npos) return fmt::format("{}ms,{}", pick(50), pick(1 << 30));
  if (row.allowed.find("a:b") != std::string::npos) return fmt::format("{}:{}", pick(20), 5 + pick(20));
  std::string text;
  static const std::string letters = "ab/ .#;\"\\='[]\xc3\xa9";
  for (auto n = pick(8); n > 0; --n) text += letters[pick(letters.size() - 2)];
  return pick(3) == 0 ? text + "\xc3\xa9" : text;
}

}  // namespace

TEST_CASE("Every option has a name of its own, a section with a title, help, and a default that reads back") {
  std::set<std::string> names;
  for (const auto& row : option_table()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(section_title(row.section()).empty());
    CHECK_FALSE(row.help.empty());
    Options options;
    CHECK(row.set(options, row.get(Options{})));
    CHECK(options == Options{});
    CHECK(find_option(row.name) == &row);
  }
  CHECK(flat_options(Options{}).size() == names.size());
}

TEST_CASE("Each option writes its own member and no other") {
  std::mt19937_64 random(7);
  for (const auto& row : option_table()) {
    bool changed = false;
    for (int attempt = 0; attempt < 200 && !changed; ++attempt) {
      Options options;
      const auto value = random_value(row, random);
      const auto before = flat_options(options);
      if (!row.set(options, value)) continue;
      const auto after = flat_options(options);
      int differences = 0;
      for (std::size_t i = 0; i < after.size(); ++i) differences += after[i].value != before[i].value;
      CAPTURE(row.name, value);
      REQUIRE(differences == (row.get(options) != row.get(Options{}) ? 1 : 0));
      changed = differences == 1;
    }
    CAPTURE(row.name);
    CHECK((changed || row.allowed == row.get(Options{})));  // an option of one choice keeps it
  }
}

TEST_CASE("write_ini gives the same options again, and is itself stable") {
  CHECK(parse_text(write_ini(Options{}), "d.ini") == Options{});
  std::mt19937_64 random(20240601);
  int accepted = 0;
  for (int round = 0; round < (kSanitized ? 1600 : 16000) && accepted < 2000; ++round) {
    std::vector<std::string> words;
    for (const auto& row : option_table()) {
      if (random() % 12 == 0) words.push_back("--" + row.name + "=" + random_value(row, random));
    }
    Options options;
    try {
      options = parse_arguments(words);
    } catch (const UsageError&) {
      continue;
    }
    ++accepted;
    const auto text = write_ini(options);
    CAPTURE(text);
    const auto again = parse_text(text, "again.ini");
    REQUIRE(again == options);
    REQUIRE(write_ini(again) == text);
  }
  CHECK(accepted > (kSanitized ? 5 : 50));
}

TEST_CASE("A run's config.ini tells how to repeat it, and has no section that training does not read") {
  const auto text = run_config(Options{}, 2);
  CHECK_THAT(text, Contains("on 2 ranks") && Contains("mpiexec -n 2 tessera train THIS_FILE --run.dir=NEW_FOLDER"));
  CHECK_THAT(run_config(Options{}, 1), Contains("on 1 rank.") && !Contains("mpiexec"));
  for (const std::string section : {"export", "bench"}) CHECK_THAT(text, !Contains("[" + section + "]"));
  CHECK_THAT(text, Contains("[plan]\nmemory = 0\n") && !Contains("view ="));  // of [plan] the limit of memory alone
  CHECK(parse_text(text, "config.ini") == Options{});
  // It names every option at its value: one that loses its effect by the command line is not refused.
  CHECK(parse_text(text, "config.ini", {"--shard.strategy=ddp"}).shard.strategy == Strategy::ddp);
  CHECK_THAT(usage_message([&] {
               parse_text(text, "config.ini", {"--train.epochs=1", "--train.steps=9"});
             }),
             Contains("train.steps = '9' has no effect"));
}

TEST_CASE("A run's config.ini tells how many ranks it had, other files do not") {
  const TemporaryFolder folder;
  const auto ranks = [&](const std::string& text) { return ranks_of_run(folder.write("config.ini", text)); };
  for (const std::int64_t world : {1, 2, 4096}) CHECK(ranks(run_config(Options{}, world)) == world);
  CHECK(ranks("\n" + run_config(Options{}, 2)) == std::nullopt);
  CHECK(ranks("# Every option of this run. tessera train THIS_FILE repeats it.\n") == std::nullopt);
  CHECK(ranks("# Every option of this run, on many ranks.\n") == std::nullopt);
  CHECK(ranks_of_run(folder / "none.ini") == std::nullopt);
}

TEST_CASE("Help names every option, and the flat list holds values and who gave them") {
  const auto help = help_text();
  for (const auto& row : option_table()) CHECK_THAT(help, Contains("--" + row.name + " "));
  const auto flat = flat_options(parse_arguments({"--optim.lr=0.25"}));
  for (const auto& option : flat) CHECK(option.given == (option.name == "optim.lr"));
  CHECK(std::ranges::find(flat, "optim.lr", &OptionValue::name)->value == "0.25");
  CHECK(value_of(parse_arguments({"--optim.lr=0.25"}), "optim.lr") == "0.25");
}

TEST_CASE("Random bytes never do more than a usage error") {
  std::mt19937_64 random(5);
  const auto& rows = option_table();
  int refused = 0;
  for (int round = 0; round < (kSanitized ? 1000 : 10000); ++round) {
    std::string text;
    const auto kind = random() % 3;
    for (auto n = random() % 200; n > 0; --n) {
      static const std::string common = "[]=#;\"\\ \n\r\t.-_azAZ09\xef\xbb\xbf";
      if (kind == 0) text += static_cast<char>(random());
      if (kind == 1) text += common[random() % common.size()];
      if (kind == 2) {
        const auto& name = rows[random() % rows.size()].name;
        const auto dot = name.find('.');
        text += "[" + name.substr(0, dot) + "]\n" + name.substr(dot + 1) + " = ";
        for (auto m = random() % 6; m > 0; --m) text += common[random() % common.size()];
        text += '\n';
      }
    }
    refused += !usage_message([&] { parse_text(text, "f.ini"); }).empty();
    refused += !usage_message([&] { parse_arguments({"--" + text, text}); }).empty();
  }
  CHECK(refused > (kSanitized ? 1000 : 10000));
}
