#include <algorithm>
#include <cmath>
#include <map>

#include "bench/tables.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/fit/fit.hpp"

namespace tessera {

namespace {

ResolveSite site_of(RankContext& context, const MachineShape& machine) { return {Purpose::bench, context, machine}; }

/// Opens the data once with the run's own options, so that a defect in it is not attributed to a row.
void require_data(RankContext& context, const Options& options, const MachineShape& machine) {
  try {
    const ResolvedRun run(options, site_of(context, machine));
  } catch (const DoesNotFit&) {  // as the table will show
  }
}

MemoryRow measured_row(RankContext& context, const MemoryCase& one, const Options& options,
                       const MachineShape& machine) {
  MemoryRow row{one, "", {}};
  const Options of_case = case_options(one, options);
  std::unique_ptr<ResolvedRun> run;
  try {
    validate(of_case);
    validate_for_world(of_case, context.size(), context.ranks_per_node());
    run = std::make_unique<ResolvedRun>(of_case, site_of(context, machine));
  } catch (const UsageError& error) {
    row.refused = error.what();
  } catch (const DoesNotFit& error) {
    row.refused = error.what();
  }
  // If a single rank refuses (because its node lacks a folder, say), no rank trains.
  if (context.control().maximum(std::int64_t{row.refused.empty() ? 0 : 1}) > 0) {
    if (row.refused.empty()) row.refused = "another rank refuses it";
    return row;
  }
  row.use = measure_memory(context, *run);
  return row;
}

std::size_t rank_to_show(const MemoryRow& row, DeviceKind device) {
  const auto size = [&](const RankMemoryUse& use) { return std::abs(use.unnamed(device)); };
  return static_cast<std::size_t>(std::ranges::max_element(row.use.ranks, {}, size) - row.use.ranks.begin());
}

std::string planned_cell(std::int64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

/// Says how many of the planned bytes were written.
std::string used_cell(std::int64_t planned, std::int64_t used) {
  if (planned == 0) return "-";
  if (used < 0) return "?";
  return used == planned ? "all" : fmt::format("all but {}", format_bytes(planned - used));
}

constexpr const char* kMeaning =
    "planned: on the device and on the host; used: how much of the planned bytes was written; in use: after "
    "training, by the process (PSS) or on the GPU; before: before the run's session; unnamed: in use that is none of "
    "the columns before it; left: above \"before\" once the session is gone";

std::string text_of(const std::vector<MemoryRow>& rows, DeviceKind device) {
  std::vector<std::string> columns{"strategy", "recomputed", "offload"};
  for (const char* const title : {"rank", "planned", "on host", "used", "on host", "in use", "before"})
    columns.push_back(std::string(">") + title);
  for (const char* const part : named_parts(device)) columns.push_back(std::string(">") + part);
  for (const char* const title : {"unnamed", "left"}) columns.push_back(std::string(">") + title);
  TextTable table(columns);
  for (const MemoryRow& row : rows) {
    std::vector<std::string> cells{std::string(name_of(row.one.strategy)), std::string(name_of(row.one.checkpoint)),
                                   std::string(name_of(row.one.offload))};
    if (!row.refused.empty()) {
      cells.insert(cells.end(), {"-", "refused"});
      table.row(std::move(cells));
      continue;
    }
    const std::size_t rank = rank_to_show(row, device);
    const RankMemoryUse& use = row.use.ranks[rank];
    cells.push_back(std::to_string(rank));
    for (const std::int64_t bytes : use.planned) cells.push_back(planned_cell(bytes));
    for (std::size_t i = 0; i < use.used.size(); ++i) cells.push_back(used_cell(use.planned[i], use.used[i]));
    for (const std::int64_t bytes : {use.in_use, use.before}) cells.push_back(format_bytes(bytes));
    for (const std::int64_t bytes : use.named) cells.push_back(format_bytes(bytes));
    for (const std::int64_t bytes : {use.unnamed(device), use.left}) cells.push_back(format_bytes(bytes));
    table.row(std::move(cells));
  }
  return table.text();
}

/// Says why combinations are refused, each reason once.
std::string reasons_text(const std::vector<MemoryRow>& rows) {
  std::map<std::string, std::string> cases;
  for (const MemoryRow& row : rows) {
    if (row.refused.empty()) continue;
    std::string& names = cases[row.refused];
    names += (names.empty() ? "" : "; ") + describe(row.one);
  }
  std::string text;
  for (const auto& [reason, names] : cases) text += fmt::format("refused {}: {}\n", names, reason);
  return text;
}

/// Says for which rows planned bytes were not written, and where those are.
std::string unused_text(const std::vector<MemoryRow>& rows) {
  std::string text;
  for (const MemoryRow& row : rows) {
    std::string names;
    for (const std::string& name : row.use.unused) names += (names.empty() ? "" : ", ") + name;
    if (!names.empty()) text += fmt::format("not used by {}: {}\n", describe(row.one), names);
  }
  return text;
}

Table table_of(const std::vector<MemoryRow>& rows, DeviceKind device) {
  std::vector<std::string> strategy, recomputed, offload, refused;
  const std::vector<std::string> names{"rank",   "planned_device", "planned_host", "used_device", "used_host",
                                       "in_use", "before",         "unnamed",      "left"};
  std::vector<std::vector<std::int64_t>> values(names.size()), named(kNamedParts);
  for (const MemoryRow& row : rows) {
    // A combination that cannot run has one row, of rank -1.
    const std::vector<RankMemoryUse> none(1);
    const std::vector<RankMemoryUse>& ranks = row.refused.empty() ? row.use.ranks : none;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const RankMemoryUse& use = ranks[rank];
      strategy.emplace_back(name_of(row.one.strategy));
      recomputed.emplace_back(name_of(row.one.checkpoint));
      offload.emplace_back(name_of(row.one.offload));
      refused.push_back(row.refused);
      const std::int64_t number = row.refused.empty() ? static_cast<std::int64_t>(rank) : -1;
      const std::int64_t cells[] = {number,     use.planned[0], use.planned[1],      use.used[0], use.used[1],
                                    use.in_use, use.before,     use.unnamed(device), use.left};
      for (std::size_t i = 0; i < names.size(); ++i) values[i].push_back(cells[i]);
      for (std::size_t i = 0; i < kNamedParts; ++i) named[i].push_back(use.named[i]);
    }
  }
  Table table{"memory",
              std::string("a row for each combination and rank; ") + kMeaning + "; used_*: -1 where it is not known",
              {{"strategy", "", strategy}, {"recomputed", "", recomputed}, {"offload", "", offload}}};
  for (std::size_t i = 0; i < names.size(); ++i) table.columns.push_back({names[i], i == 0 ? "1" : "B", values[i]});
  for (std::size_t i = 0; i < kNamedParts; ++i) table.columns.push_back({named_parts(device)[i], "B", named[i]});
  table.columns.push_back({"refused", "", refused});
  return table;
}

}  // namespace

std::vector<MemoryRow> memory_rows(RankContext& context, const Options& options, const MachineShape& machine) {
  require_data(context, options, machine);
  std::vector<MemoryRow> rows;
  for (const MemoryCase& one : memory_cases(options)) rows.push_back(measured_row(context, one, options, machine));
  const bool none = std::ranges::all_of(rows, [](const MemoryRow& row) { return !row.refused.empty(); });
  if (none) throw UsageError("{}", rows.front().refused);
  return rows;
}

BenchResult memory_table(const std::vector<MemoryRow>& rows, DeviceKind device) {
  BenchResult result;
  result.text = text_of(rows, device) + reasons_text(rows) + unused_text(rows) + kMeaning;
  result.tables = {table_of(rows, device)};
  return result;
}

}  // namespace tessera
