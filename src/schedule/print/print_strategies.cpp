// Strategies next to each other, a row each: memory by category, and what is sent.
#include <algorithm>
#include <array>

#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

namespace {

constexpr std::array<const char*, kCategories> kCategoryTitles{"parameters",  "gradients", "optimizer", "gathered",
                                                               "activations", "comm",      "workspace"};

/// Returns the bytes of a row on the host, whether they are separate from the device's or counted with them.
std::int64_t host_bytes(const StrategyRow& row) {
  return copies_in_steps(row.schedule) ? row.plan.at(MemorySpace::host).total()
                                       : limited_host_bytes(row.schedule, row.plan);
}

std::string title_of(const StrategyRow& row) { return std::string(name_of(row.strategy)) + (row.chosen ? " *" : ""); }
}  // namespace

std::string print_strategy_table(const std::vector<StrategyRow>& rows) {
  const bool on_host =
      std::ranges::any_of(rows, [](const StrategyRow& row) { return row.impossible.empty() && host_bytes(row) > 0; });
  std::vector<std::string> columns{"strategy", "shard x replica"};
  for (const char* title : kCategoryTitles) columns.push_back(std::string(">") + title);
  if (on_host) columns.emplace_back(">host");
  for (const char* title : {"idle", "to allocate"}) columns.push_back(std::string(">") + title);
  TextTable table(columns);
  for (const StrategyRow& row : rows) {
    if (!row.impossible.empty()) {
      table.line(title_of(row) + ": " + row.impossible);
      continue;
    }
    const SpacePlan& device = row.plan.at(MemorySpace::device);
    std::vector<std::string> cells{title_of(row), fmt::format("{} x {}", row.schedule.grid.size(Group::shard),
                                                              row.schedule.grid.size(Group::replica))};
    for (const std::int64_t bytes : device.at_peak) cells.push_back(format_bytes(bytes));
    if (on_host) cells.push_back(format_bytes(host_bytes(row)));
    cells.push_back(format_bytes(device.idle_at_peak()));
    cells.push_back(format_bytes(limited_bytes(row.schedule, row.plan)));
    table.row(std::move(cells));
  }
  return table.text();
}

std::string print_strategy_peaks(const std::vector<StrategyRow>& rows) {
  std::vector<std::string> columns{"strategy"};
  for (const char* title : kCategoryTitles) columns.push_back(std::string(">") + title);
  for (const char* title : {"sent per step", "collectives"}) columns.push_back(std::string(">") + title);
  TextTable table(columns);
  for (const StrategyRow& row : rows) {
    if (!row.impossible.empty()) continue;
    std::vector<std::string> cells{title_of(row)};
    for (const std::int64_t bytes : row.plan.at(MemorySpace::device).own_peak) cells.push_back(format_bytes(bytes));
    cells.push_back(format_bytes(row.schedule.wire_bytes_per_step()));
    cells.push_back(std::to_string(collectives_per_step(row.schedule)));
    table.row(std::move(cells));
  }
  return table.text();
}

}  // namespace tessera
