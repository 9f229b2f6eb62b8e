#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

#include "all_policies.hpp"
#include "json_case.hpp"
#include "tessera/base/format.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string schedule_text(const StepSchedule& s) { return print_schedule(s, plan_memory(s)); }

}  // namespace

TEST_CASE("the schedule is printed an operation a line, in order, each once") {
  for_each_policy([](const PolicyCase& c) {
    static int draw = 0;
    if (++draw % 37 != 0) return;
    INFO(c.describe());
    const auto schedule = c.schedule_of();
    if (!schedule) return;
    int next = 0;
    const std::regex operation(R"(^ *(\d+)  (compute|gather|reduce|replica|load|store|host) .*->.*)");
    for (const std::string& line : lines_of(schedule_text(*schedule))) {
      std::smatch match;
      if (!std::regex_match(line, match, operation)) continue;
      REQUIRE(match[1].str() == std::to_string(next));
      REQUIRE(line.back() != ' ');
      ++next;
    }
    REQUIRE(next == static_cast<int>(schedule->operations.size()));
  });
}

TEST_CASE("a student sees where units are gathered, released and reduced") {
  const std::string text = schedule_text(toy(Strategy::zero3));
  REQUIRE(std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));  // any terminal
  REQUIRE(contains(text, "shard h.0 -> full h.0"));
  REQUIRE(contains(text, "full h.0 (last)"));
  REQUIRE(contains(text, "grad h.0 (last) -> shard grad h.0"));
  REQUIRE(contains(text, "(prefetch)"));
  REQUIRE(contains(text, "(peak)"));
  REQUIRE(contains(text, "head+loss"));
  REQUIRE(contains(text, "micro-step: played once a step"));
  REQUIRE(contains(text, "update: played once a step"));
  REQUIRE(contains(text, "evaluation: played for each evaluation batch"));
  const std::string whole = schedule_text(toy(Strategy::zero1));
  REQUIRE(contains(whole, "prologue: played once, before the first step"));
}

TEST_CASE("every released storage that is read says so exactly once a segment") {
  const StepSchedule schedule = toy(Strategy::zero3);
  const std::string text = schedule_text(schedule);
  const std::string micro_step = text.substr(0, text.find("\nupdate:"));
  int full = 0;  // 5 units; h.0 is gathered again for backward, h.1 is kept
  for (const std::string& line : lines_of(micro_step)) {
    static const std::regex released(R"(full \S+ \(last\))");
    full += static_cast<int>(
        std::distance(std::sregex_iterator(line.begin(), line.end(), released), std::sregex_iterator()));
  }
  REQUIRE(full == 6);
}

TEST_CASE("how often a segment is played is said with its micro-steps") {
  const std::string text = schedule_text(toy(Strategy::zero3, 5));
  REQUIRE(contains(text, "micro-step first: played once a step, for micro-step 0"));
  REQUIRE(contains(text, "played once a step, for micro-step 4"));
  const std::string merging = schedule_text(toy(Strategy::zero3, 6));
  REQUIRE(contains(merging, "played once a step, for micro-step 5"));
}

TEST_CASE("the longest preset prints an operation a line and no endless lines") {
  SchedulePolicy policy;
  const auto model = declare_parts(preset("gpt2-124m"), 4, 1024, DType::fp32);
  const StepSchedule schedule = build_schedule(model, grid_for(Strategy::zero3, 8, 8, 0), policy);
  for (const std::string& line : lines_of(schedule_text(schedule))) REQUIRE(line.size() < 200);
}

TEST_CASE("accumulators are log2 of the micro-steps, rounded down") {
  for (std::int64_t K = 1; K <= 17; ++K) {
    const StepSchedule schedule = toy(Strategy::zero3, K);
    INFO(K << " micro-steps");
    CHECK(verify_schedule(schedule).empty());
    std::int64_t slots = 0;
    while ((std::int64_t{2} << slots) <= K) ++slots;
    // Of two micro-steps the last one reduces the tables' gradients of both: their sum crosses no border.
    const std::int64_t tables = schedule.unit(UnitId(0)).padded + schedule.unit(UnitId(1)).padded;
    CHECK(accumulator_bytes(schedule) == (slots * schedule.layout.padded_elements() - (K == 2 ? tables : 0)) / 4 * 4);
  }
}

TEST_CASE("the comparison has a row for each strategy, and says what is impossible") {
  std::vector<StrategyRow> rows;
  for (const StrategyRules& rules : all_strategies()) {
    const Strategy strategy = rules.strategy;
    StrategyRow row;
    row.strategy = strategy;
    row.chosen = strategy == Strategy::zero2;
    if (strategy == Strategy::hsdp) {
      row.impossible = "shard.group_size = 3 does not divide the world";
    } else {
      row.schedule = toy(strategy);
      row.plan = plan_memory(row.schedule);
    }
    rows.push_back(std::move(row));
  }
  const auto lines = lines_of(print_strategy_table(rows));
  const auto peaks = lines_of(print_strategy_peaks(rows));
  REQUIRE(lines.size() == rows.size() + 1);
  REQUIRE(peaks.size() == rows.size());
  std::size_t possible = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StrategyRow& row = rows[i];
    REQUIRE(contains(lines[i + 1], std::string(name_of(row.strategy)) + (row.chosen ? " *" : "")));
    if (!row.impossible.empty()) {
      REQUIRE(contains(lines[i + 1], "hsdp: shard.group_size = 3"));
      continue;
    }
    REQUIRE(contains(lines[i + 1], format_bytes(row.plan.total())));
    const std::string& line = peaks[++possible];
    REQUIRE(contains(line, format_bytes(row.schedule.wire_bytes_per_step())));
    for (const std::int64_t bytes : row.plan.at(MemorySpace::device).own_peak)
      REQUIRE(contains(line, format_bytes(bytes)));
  }
}

TEST_CASE("the columns of the comparison add up to what is allocated") {
  for (const bool snapshot : {false, true}) {
    std::vector<StrategyRow> rows;
    for (const StrategyRules& rules : all_strategies()) {
      const Strategy strategy = rules.strategy;
      SchedulePolicy policy;
      policy.strategy = strategy;
      policy.snapshot = snapshot;
      StrategyRow& row = rows.emplace_back();
      row.strategy = strategy;
      row.schedule = build_schedule(toy_model(), grid_for(strategy, 4, 2, 0), policy);
      row.plan = plan_memory(row.schedule);
    }
    const auto lines = lines_of(print_strategy_table(rows));
    INFO(print_strategy_table(rows));
    REQUIRE(contains(lines[0], "host") == snapshot);
    for (std::size_t i = 1; i < lines.size(); ++i) {
      static const std::regex bytes(R"(([0-9.]+) (B|kB|MB)\b)");
      std::vector<double> cells;
      for (std::sregex_iterator cell(lines[i].begin(), lines[i].end(), bytes), end; cell != end; ++cell)
        cells.push_back(std::stod((*cell)[1]) * ((*cell)[2] == "B" ? 1 : (*cell)[2] == "kB" ? 1e3 : 1e6));
      REQUIRE(cells.size() == kCategories + (snapshot ? 3 : 2));
      const double total = cells.back();
      double sum = -total;
      for (const double cell : cells) sum += cell;
      REQUIRE(sum == Approx(total).epsilon(0.01));  // three digits are printed
    }
  }
}

TEST_CASE("the formulas of ZeRO are found in each category's own peak") {
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3}) {
    for (const std::int64_t accumulation : {1, 2}) {
      const StepSchedule schedule = toy(strategy, accumulation);
      const MemoryPlan plan = plan_memory(schedule);
      const std::int64_t P = schedule.layout.padded_elements(), n = strategy == Strategy::ddp ? 1 : 4;
      const auto peak = [&](Category c) { return plan.at(MemorySpace::device).own_peak[static_cast<std::size_t>(c)]; };
      INFO(name_of(strategy) << " " << accumulation);
      CHECK(peak(Category::optimizer_state) == 8 * P / n);
      CHECK(peak(Category::parameters) == 4 * P / n + (strategy == Strategy::zero1 ? 4 * P : 0));
      const std::int64_t gradients = peak(Category::gradients);
      CHECK(gradients >= (strategy == Strategy::ddp || (strategy == Strategy::zero1 && accumulation > 1) ? 4 * P : P));
    }
  }
}
