#pragma once
// The folder of a sweep, which holds all of its state.
//
//   DIR/sweep.json        name, file, base, the command line's options of rows, baseline, how rows are started, and the
//                         rows in order; DIR/sweep.ini and DIR/base.ini: those files as they were
//   DIR/ROW/config.ini    the options of a row
//   DIR/ROW/row.ini       of `submit`: a sweep's file of this row alone, from which its job starts it
//   DIR/ROW/status.json   its progress; DIR/ROW/lock is held while it runs
//   DIR/ROW/output.txt    the output of its attempts
//   DIR/ROW/run/          its run; of further repeats run.2/, run.3/, ...
//   DIR/slurm/            jobs, their rows and their output
//   DIR/data/             the corpus for rows that are commands

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "sweep/rows.hpp"
#include "tessera/run/folder.hpp"
#include "tessera/run/lock.hpp"

namespace tessera {

enum class RowState : std::uint8_t { pending, running, done, failed, does_not_fit, timed_out, stopped, skipped };
/// Returns "pending", "does-not-fit", ...
std::string_view name_of(RowState state);

/// The contents of DIR/ROW/status.json.
struct RowStatus : Status {  ///< of its last attempt
  RowState state = RowState::pending;
  std::int64_t attempts = 0;                               ///< processes that were started for it
  std::int64_t repeats = 0;                                ///< complete runs of it
  double load = std::numeric_limits<double>::quiet_NaN();  ///< average when the last attempt began; NaN: not known
  std::string host, job;                                   ///< of the last attempt; `job`: Slurm's
  bool was_killed = false;                                 ///< its status says running, but no process runs it
  /// Returns whether nothing is left to do for it.
  bool is_settled() const {
    return state == RowState::done || state == RowState::does_not_fit || state == RowState::skipped;
  }
  /// Returns whether it is started without `retry`: because it was not begun, was stopped by its user, lost its
  /// process, or may be possible today.
  bool may_start() const {
    return state == RowState::pending || state == RowState::stopped || was_killed || state == RowState::does_not_fit ||
           state == RowState::skipped;
  }
  /// Returns whether `retry` starts it.
  bool has_failed() const {
    return state == RowState::failed || state == RowState::timed_out || state == RowState::stopped;
  }
};

/// How a sweep's rows were last started.
enum class Started : std::uint8_t { not_yet, here, by_slurm };

class SweepFolder {
 public:
  explicit SweepFolder(const SweepFile& file);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path row(const SweepRow& row) const { return path_ / row.name; }
  /// Returns the folder of the run for repeat 1, 2, ...
  std::filesystem::path run(const SweepRow& row, std::int64_t repeat) const;
  std::filesystem::path config(const SweepRow& row) const { return path_ / row.name / "config.ini"; }

  /// Makes the folders, writes sweep.json, the files that it came from, and each row's config.ini; for Slurm also its
  /// row.ini. Throws UsageError if the folder belongs to another file, or if a row that has begun had other options.
  /// Only with the lock.
  void prepare(const std::vector<SweepRow>& rows, Started how) const;
  /// Returns whether the folder's copies of the sweep's file and of its base are still the same.
  bool has_same_files() const;
  /// Reads sweep.json; throws UsageError if it is another file's.
  Started started() const;
  /// Returns the same for a sweep that was started. Throws UsageError if it was not, or with other sweep.ranks.
  Started require_started() const;

  /// Reads status.json; a running row whose lock is free has failed.
  RowStatus status(const SweepRow& row) const;
  void write_status(const SweepRow& row, const RowStatus& status) const;

 private:
  void require_own() const;
  RowStatus read_status(const SweepRow& row) const;
  std::string config_text(const SweepRow& row) const;
  std::string row_text(const SweepRow& row) const;

  std::filesystem::path path_;
  const SweepFile& file_;
};

/// Returns the rows with which the sweep was started last, by name and ranks alone, and gives `file` their repeats: it
/// may have changed since. Throws as require_started does.
std::vector<SweepRow> started_rows(SweepFile& file);

/// Returns how DIR and DIR/ROW are locked: RunLock(FOLDER, 0, sweep_lock()) holds FOLDER/lock during its lifetime.
/// `say` is called when it has waited for a while.
LockSettings sweep_lock(const std::function<void(const std::string&)>& say = {});

}  // namespace tessera
