// The schedule as JSON says what its text says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <regex>
#include <sstream>

#include "json_case.hpp"
#include "tessera/base/format.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The operations that print_schedule shows: the cells of each line under the heading of its segment's table.
std::vector<std::map<std::string, std::string>> printed(const Planned& p) {
  const std::vector<std::string> titles{"op", "queue", "does", "of", "after", "reads -> writes", "alive", "sent"};
  std::vector<std::map<std::string, std::string>> lines;
  std::istringstream in(print_schedule(p.schedule, p.plan));
  std::string heading;
  for (std::string line; std::getline(in, line);) {
    if (line.find("reads -> writes") != std::string::npos) {
      heading = line;
    } else if (line.empty()) {
      heading.clear();
    } else if (!heading.empty()) {
      std::map<std::string, std::string> cells;
      for (std::size_t i = 0; i < 6; ++i) {
        // The first column stands at its right end; the text of others begins under their title.
        const std::size_t from = i == 0 ? 0 : heading.find(titles[i]);
        const std::size_t to = i == 5   ? std::string::npos
                               : i == 0 ? heading.find("queue")
                                        : heading.find(titles[i + 1]);
        const auto cell = line.substr(from, to == std::string::npos ? to : to - from);
        cells[titles[i]] = cell.substr(0, cell.find_last_not_of(' ') + 1);
      }
      lines.push_back(std::move(cells));
    }
  }
  return lines;
}

/// Returns the numbers of a text such as "3 7 (prefetch)".
std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& word : words_of(text)) {
    if (word[0] != '(') numbers.push_back(std::stoi(word));
  }
  return numbers;
}

}  // namespace

TEST_CASE("text and JSON of a schedule agree") {
  for (const StrategyRules& rules : all_strategies()) {
    const Planned p = planned(toy(rules.strategy, 3));
    const auto lines = printed(p);
    const std::vector<Json> operations = operations_of(p.json);
    REQUIRE(lines.size() == operations.size());
    std::size_t released = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const Json& json = operations[i];
      INFO(rules.name << " " << json.dump());
      REQUIRE(std::stoi(lines[i].at("op")) == json.at("id"));
      REQUIRE(lines[i].at("queue") == json.at("queue"));
      REQUIRE(json.at("name").get<std::string>().starts_with(lines[i].at("does")));
      std::vector<int> others;  // the text also has the last one of the same queue
      for (const int other : numbers_of(lines[i].at("after"))) {
        if (operations.at(static_cast<std::size_t>(other)).at("queue") != json.at("queue")) others.push_back(other);
      }
      auto waits = json.at("waits").get<std::vector<int>>();
      std::ranges::sort(waits);
      REQUIRE(others == waits);
      const std::string& values = lines[i].at("reads -> writes");
      for (const Json& name : json.at("releases")) {
        if (name.get<std::string>().starts_with("saved ")) continue;  // the text has those of a part as one
        REQUIRE(values.find(name.get<std::string>() + " (last)") != std::string::npos);
        ++released;
      }
      REQUIRE(values.find(format_bytes(json.at("alive_bytes").get<std::int64_t>())) != std::string::npos);
      if (json.at("wire_bytes") > 0) REQUIRE(values.ends_with(format_bytes(json.at("wire_bytes").get<std::int64_t>())));
    }
    REQUIRE(released > 0);
    for (const Json& play : p.json.at("step")) REQUIRE(play.at("micro_step") < 3);
    REQUIRE(p.json.at("step").size() == 4);  // three micro-steps and the update
  }
}

TEST_CASE("text and JSON agree on units and on memory") {
  for (const StrategyRules& rules : all_strategies()) {
    const Planned p = planned(toy(rules.strategy, 4));
    const std::string units = print_units(p.schedule), memory = print_memory(p.schedule, p.plan);
    INFO(units << memory);
    for (const Json& unit : p.json.at("units")) {
      const std::int64_t elements = unit.at("elements"), padded = unit.at("padded");
      const std::string row = fmt::format(
          "\n *{} +{} +{} +{} +{}{} *\n", unit.at("name").get<std::string>(), unit.at("tensors").get<int>(), elements,
          padded - elements, unit.at("share").get<std::int64_t>(), unit.at("block").get<bool>() ? " +yes" : "");
      REQUIRE(std::regex_search(units, std::regex(row)));
      REQUIRE_FALSE(unit.at("parts").empty());
    }
    const auto has = [&](const std::string& row) { return std::regex_search(memory, std::regex(row)); };
    for (const auto& [name, bytes] : p.json.at("memory").at("categories").items()) {
      const std::int64_t own = p.json.at("memory").at("own_peaks").at(name);
      REQUIRE(has(fmt::format("{} +{} +{}\n", name, format_bytes(bytes.get<std::int64_t>()), format_bytes(own))));
    }
    for (const Json& collective : p.json.at("collectives")) {
      REQUIRE(has(fmt::format("{}[^\n]* of {} +{} +{}\n", collective.at("name").get<std::string>(),
                              collective.at("ranks").get<int>(), collective.at("calls").get<int>(),
                              format_bytes(collective.at("bytes").get<std::int64_t>()))));
    }
    REQUIRE(has("to allocate +" + format_bytes(p.json.at("memory").at("to_allocate").get<std::int64_t>()) + " *\n"));
    REQUIRE(has("2 a unit"));  // log2 of 4 micro-steps
    REQUIRE(has("keeps " + format_bytes(p.json.at("memory").at("accumulators").get<std::int64_t>())));
    REQUIRE(memory.find("the peak is at " + p.json.at("memory").at("peak").get<std::string>() + "\n") !=
            std::string::npos);
    for (const Json& region : p.json.at("memory").at("regions")) {
      REQUIRE(has(fmt::format("{} +{} +{} ", region.at("region").get<std::string>(),
                              format_bytes(region.at("bytes").get<std::int64_t>()),
                              format_bytes(region.at("lower_bound").get<std::int64_t>()))));
    }
    REQUIRE(has(fmt::format("by the formula of {} +{}\n", rules.name,
                            format_bytes(p.json.at("formula").at("bytes").get<std::int64_t>()))));
    REQUIRE(has(fmt::format("in all +{}\n", format_bytes(p.json.at("wire_bytes_per_step").get<std::int64_t>()))));
  }
}
