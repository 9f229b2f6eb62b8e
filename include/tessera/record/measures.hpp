#pragma once
// The numbers that a run measures, each a row of a table (src/record/measures.cpp): the columns of metrics.h5, the
// fields of log.jsonl, the numbers of tessera-report and the tables of docs/manual/metrics.md follow it.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/record/reports.hpp"
#include "tessera/run/folder.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera {

struct RunAccount;

/// Describes a measure: where it is recorded, and what it is.
struct Measure {
  enum class Kind : std::uint8_t { integer, flag, real };  ///< flag: 0 or 1, in log.jsonl true or false
  std::string path;                                        ///< in metrics.h5, below /; empty: not in it
  Kind kind = Kind::real;
  std::string unit, log;  ///< log: its key in log.jsonl; empty: not in it
  std::string help;
  bool reported = false;  ///< an attribute that tessera-report shows under its name
};

/// A measure and where it comes from: a member of the row, or a function of it.
template <class Row>
struct MeasureOf {
  template <class F>
  MeasureOf(Measure told, F of)
      : measure(std::move(told)), value([of](const Row& row) { return static_cast<double>(std::invoke(of, row)); }) {}
  Measure measure;
  std::function<double(const Row&)> value;
};
template <class Row>
using Measures = std::vector<MeasureOf<Row>>;

const Measures<StepReport>& step_measures();
/// These follow in the same table; `names`: of a mixture's sources.
Measures<StepReport> source_measures(const std::vector<std::string>& names);
/// `sets`: names of the validation sets. The first has columns of its own, and so has each with a name.
Measures<EvaluationReport> evaluation_measures(const std::vector<std::string>& sets);
const Measures<CheckpointReport>& checkpoint_measures();
const Measures<RankRow>& report_measures();
const Measures<OverlapRow>& overlap_measures();
/// These have a value for each rank, GPU or layer. `group` is what the paths begin with.
const Measures<RankValues>& rank_measures();
Measures<DeviceSample> device_measures(const std::string& group);
const Measures<double>& layer_measures();
/// The step alone, for a table about a report.
Measures<RankRow> step_of_report(const std::string& path);
/// Attributes of /provenance. Those that become known later are NaN at first.
const Measures<RunAccount>& start_measures();
inline constexpr const char *kFirstStep = "seconds_to_first_step", *kLoadAtEnd = "load_average_end",
                            *kForeignAtEnd = "gpu_foreign_processes_end";

/// Returns all of them, table by table, for a validation set called NAME.
std::vector<Measure> all_measures();

/// Adds a table's columns, of `width` values each if it has several rows, such as ranks.
template <class Row>
void add_columns(MetricsTable& table, const Measures<Row>& measures, std::int64_t width) {
  for (const auto& [told, value] : measures) {
    const ColumnKind kind = told.kind == Measure::Kind::real ? ColumnKind::real : ColumnKind::integer;
    if (!told.path.empty()) table.push_back({told.path, kind, width});
  }
}

/// Adds the values of these columns.
template <class Row>
void add_values(std::vector<double>& values, const Measures<Row>& measures, std::span<const Row> rows) {
  for (const auto& [told, value] : measures) {
    if (told.path.empty()) continue;
    for (const Row& row : rows) values.push_back(value(row));
  }
}

/// Returns a number as log.jsonl has it.
JsonField logged(const Measure& measure, double value);

/// Returns the fields of a line of log.jsonl.
template <class Row>
std::vector<JsonField> fields_of(const Measures<Row>& measures, const Row& row) {
  std::vector<JsonField> fields;
  for (const auto& [told, value] : measures) {
    if (!told.log.empty()) fields.push_back(logged(told, value(row)));
  }
  return fields;
}

}  // namespace tessera
