#pragma once
// The folder of a sweep: all that is known of it lies there.
//
//   DIR/sweep.json        name, file, baseline, how rows are started, the rows in order
//   DIR/ROW/config.ini    the options of a row
//   DIR/ROW/status.json   how far it is; DIR/ROW/lock is held while it runs
//   DIR/ROW/output.txt    what its attempts printed
//   DIR/ROW/run/          its run; of further repeats run.2/, run.3/, ...
//   DIR/slurm/            jobs, their rows and their output
//   DIR/data/             the corpus for rows that are commands

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sweep/rows.hpp"
#include "tessera/run/lock.hpp"

namespace tessera {

enum class RowState : std::uint8_t { pending, running, done, failed, does_not_fit, timed_out, stopped, skipped };
/// "pending", "does-not-fit", ...
std::string_view name_of(RowState state);

/// DIR/ROW/status.json.
struct RowStatus {
  RowState state = RowState::pending;
  std::string message;
  int code = 0;                                            ///< exit code of the last attempt
  std::int64_t attempts = 0;                               ///< processes that were started for it
  std::int64_t repeats = 0;                                ///< runs of it that are whole
  double started = 0.0, ended = 0.0;                       ///< of the last attempt, seconds since 1970
  double load = std::numeric_limits<double>::quiet_NaN();  ///< average when the last attempt began; NaN: not known
  std::string host, job;                                   ///< of the last attempt; `job`: Slurm's
  bool was_killed = false;                                 ///< it is said to be running, and nobody runs it
  /// Nothing is left to do for it.
  bool is_settled() const {
    return state == RowState::done || state == RowState::does_not_fit || state == RowState::skipped;
  }
  /// It is started without being asked for by `retry`: it was not begun, was stopped by its user, lost what ran it, or
  /// may be possible today.
  bool may_start() const {
    return state == RowState::pending || state == RowState::stopped || was_killed || state == RowState::does_not_fit ||
           state == RowState::skipped;
  }
  /// What `retry` starts.
  bool has_failed() const {
    return state == RowState::failed || state == RowState::timed_out || state == RowState::stopped;
  }
};

/// How a sweep's rows were started last.
enum class Started : std::uint8_t { not_yet, here, by_slurm };

class SweepFolder {
 public:
  explicit SweepFolder(const SweepFile& file);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path row(const SweepRow& row) const { return path_ / row.name; }
  /// The run of repeat 1, 2, ...
  std::filesystem::path run(const SweepRow& row, std::int64_t repeat) const;
  std::filesystem::path config(const SweepRow& row) const { return path_ / row.name / "config.ini"; }

  /// Makes the folders, writes sweep.json and each row's config.ini. UsageError where the folder is that of another
  /// file, or where a row that has begun had other options. Only with the lock.
  void prepare(const std::vector<SweepRow>& rows, Started how) const;
  /// What sweep.json says; UsageError for another file's.
  Started started() const;

  /// status.json; a row that is said to be running and whose lock is free has failed.
  RowStatus status(const SweepRow& row) const;
  void write_status(const SweepRow& row, const RowStatus& status) const;

 private:
  void require_own() const;
  RowStatus read_status(const SweepRow& row) const;
  std::string config_text(const SweepRow& row) const;

  std::filesystem::path path_;
  const SweepFile& file_;
};

/// Holds DIR/lock or DIR/ROW/lock while it lives. UsageError or IoError if somebody else does.
class SweepLock {
 public:
  explicit SweepLock(const std::filesystem::path& folder);
  /// Whether nobody holds the lock of this folder.
  static bool is_free(const std::filesystem::path& folder);
  /// What holds the lock. A process that inherits it holds it too.
  int descriptor() const { return lock_.descriptor(); }

 private:
  RunLock lock_;
};

}  // namespace tessera
