// sweep.action = run, retry and row.
#include <algorithm>
#include <tuple>

#include "sweep/actions.hpp"
#include "sweep/attempt.hpp"
#include "sweep/launcher.hpp"
#include "sweep/text_file.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/text/corpus.hpp"

namespace tessera {

namespace {

/// Finds a missing or too short corpus, or a missing launcher, before the first row. Throws UsageError naming the row.
void require_startable(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::vector<std::tuple<DataOptions, std::string, std::int64_t, std::int64_t>> seen;
  for (const SweepRow& row : rows) {
    if (!row.trains()) continue;
    const Architecture architecture = resolve_architecture(row.options.model);
    Options options = row.options;
    if (options.train.seq_len == kFittingLength)  // memory decides when the row runs: the least is looked for
      options.train.seq_len = 1, options.data.packing = Packing::stream;
    const std::tuple what{options.data, options.model.from, architecture.vocab, sequence_length(options, architecture)};
    try {
      launcher_words(sweep.file.sweep.launcher, row.ranks);
      if (std::ranges::find(seen, what) != seen.end()) continue;
      seen.push_back(what);
      open_dataset(options, std::get<2>(what), std::get<3>(what), {.threads = allowed_cores(), .say = say, .stop = {}});
    } catch (const UsageError& error) {
      throw UsageError("row {}: {}", row.name, error.what());
    }
  }
}

std::string line_about(const SweepRow& row, const RowStatus& status) {
  const bool ran = status.updated > status.started && status.attempts > 0;
  return fmt::format("{:<20} {:<12} {}{}{}", row.name, name_of(status.state),
                     ran ? format_seconds(status.updated - status.started) : "", status.message.empty() ? "" : "  ",
                     status.message);
}

std::vector<RowStatus> statuses_of(const SweepFolder& folder, const std::vector<SweepRow>& rows) {
  std::vector<RowStatus> out;
  out.reserve(rows.size());
  for (const SweepRow& row : rows) out.push_back(folder.status(row));
  return out;
}

/// Runs the rows one after the other, as often as sweep.repeat says.
void run_in_turns(const Sweep& sweep, const SweepFolder& folder, std::vector<SweepRow> rows) {
  SweepSignals signals;
  const AttemptSettings settings{sweep.file.sweep, false, say};
  for (std::int64_t repeat = 1; repeat <= sweep.file.sweep.repeat; ++repeat) {
    std::vector<SweepRow> left;
    for (const SweepRow& row : rows) {
      if (signals.asked() > 0) return say("stopped: start it again to go on");
      if (folder.status(row).repeats < repeat) {
        const RowStatus status = attempt_row(folder, row, repeat, settings, signals);
        say(line_about(row, status));
        if (status.state != RowState::pending) continue;
      }
      left.push_back(row);
    }
    rows = left;
  }
}

int run_rows(const Sweep& sweep, const SweepFolder& folder, const std::vector<SweepRow>& rows) {
  say(fmt::format("sweep {}: {} of {} to run, into {}", sweep.file.sweep.name, rows.size(),
                  counted(std::ssize(sweep.chosen), "row"), folder.path().string()));
  run_in_turns(sweep, folder, rows);
  const std::vector<RowStatus> all = statuses_of(folder, sweep.chosen);
  const auto done = std::ranges::count(all, RowState::done, &RowStatus::state);
  say(fmt::format("{} of {} done; the table: tessera-report {}", done, counted(std::ssize(all), "row"),
                  folder.path().string()));
  const auto failed = std::ranges::count(all, RowState::failed, &RowStatus::state) +
                      std::ranges::count(all, RowState::timed_out, &RowStatus::state);
  if (failed == 1) say("1 row failed. Use --sweep.action=retry to run it again.");
  if (failed > 1) say(fmt::format("{} rows failed. Use --sweep.action=retry to run them again.", failed));
  const auto left = std::ranges::count(all, RowState::pending, &RowStatus::state) +
                    std::ranges::count(all, RowState::stopped, &RowStatus::state);
  if (left > 0) say(fmt::format("{} left. Use --sweep.action=run to go on.", counted(left, "row")));
  return exit_code_of(all);
}

}  // namespace

int exit_code_of(const std::vector<RowStatus>& statuses) {
  for (const RowStatus& status : statuses) {
    if (status.is_settled()) continue;
    return status.code != 0 ? status.code : static_cast<int>(ExitCode::stopped_early);
  }
  return 0;
}

int run_here(const Sweep& sweep) {
  const SweepFolder folder(sweep.file);
  require_startable(sweep, sweep.chosen);
  make_folder(folder.path());
  const RunLock lock(folder.path(), 0, sweep_lock());
  if (folder.started() == Started::by_slurm) require_none_queued(folder);
  folder.prepare(sweep.rows, Started::here);
  std::vector<SweepRow> rows;
  for (const SweepRow& row : sweep.chosen) {
    // No other sweep runs here, so a process that still runs a row was left by one that was killed, and ends soon.
    const RowStatus status = folder.status(row);
    if (status.may_start() || status.state == RowState::running) rows.push_back(row);
  }
  return run_rows(sweep, folder, rows);
}

int retry_rows(const Sweep& sweep) {
  const SweepFolder folder(sweep.file);
  const Started how = folder.require_started();
  std::vector<SweepRow> rows;
  {
    const RunLock lock(folder.path(), 0, sweep_lock());
    // Jobs in the queue read their rows' files, which are then made anew.
    if (how == Started::by_slurm && !folder.has_same_files()) require_none_queued(folder);
    folder.prepare(sweep.rows, how);
    const std::set<std::string> lost = lost_jobs(folder, sweep.chosen);
    for (const SweepRow& row : sweep.chosen) {
      const RowStatus before = folder.status(row);
      if (!before.has_failed() && !(before.state == RowState::pending && lost.contains(before.job))) continue;
      const RunLock of_row(folder.row(row), 0, sweep_lock());
      RowStatus status = folder.status(row);
      status.state = RowState::pending;
      status.message = "to be tried again: " + status.message;
      folder.write_status(row, status);
      rows.push_back(row);
    }
    if (rows.empty()) {
      const std::vector<RowStatus> all = statuses_of(folder, sweep.chosen);
      const auto pending = std::ranges::count(all, RowState::pending, &RowStatus::state);
      say(fmt::format("nothing to try again: no row has failed{}",
                      pending > 0 ? fmt::format(", {} pending: run or submit starts them", pending) : ""));
      return exit_code_of(all);
    }
    if (how == Started::here) return run_rows(sweep, folder, rows);
  }
  Sweep again = sweep;
  again.chosen = rows;
  return submit_rows(again);
}

int run_in_job(const Sweep& sweep) {
  if (sweep.chosen.size() != 1)
    throw refuse("sweep.only", sweep.file.sweep.only).because("sweep.action = row runs one row").use("its name");
  const SweepFolder folder(sweep.file);
  const SweepRow& row = sweep.chosen[0];
  SweepSignals signals;
  const AttemptSettings settings{sweep.file.sweep, true, say};
  RowStatus status = folder.status(row);
  while (!status.is_settled() && status.repeats < sweep.file.sweep.repeat) {
    status = attempt_row(folder, row, status.repeats + 1, settings, signals);
    say(line_about(row, status));
    if (status.state != RowState::pending || status.code != 0) break;
  }
  return exit_code_of({status});
}

}  // namespace tessera
