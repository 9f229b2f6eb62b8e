#pragma once
// The folder of a run: its user, files that are replaced as a whole, and log lines.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/file_descriptor.hpp"

namespace tessera {

enum class RunState : std::uint8_t { running, finished, stopped, failed };
std::string_view name_of(RunState state);

/// What status.json of a run and of a sweep's row have alike, for scripts.
struct Status {
  int code = 0;          ///< exit code, once it is known
  std::string message;   ///< why it stopped or failed
  double started = 0.0;  ///< seconds since 1970; 0: not yet
  double updated = 0.0;  ///< of a row that does not run, when its last attempt ended
};
/// Returns these keys, times also as UTC text.
nlohmann::ordered_json status_json(std::string_view state, const Status& status);
/// Returns the text of a status.json.
std::string status_text(const nlohmann::ordered_json& json);

/// The contents of RUN/status.json.
struct RunStatus : Status {
  RunState state = RunState::running;
  std::int64_t step = 0, steps = 0;
  std::int64_t checkpoint = 0;      ///< the step of the last one that this start has published; 0: none
  bool by_stop_file = false;        ///< RUN/stop asked for the stop, which is then for good
  std::int64_t evaluated_step = 0;  ///< of the last evaluation
  /// Name and loss of each validation set after it; empty before the first evaluation.
  std::vector<std::pair<std::string, double>> validation_losses;
  std::int64_t straggler = -1;  ///< the rank that is slowing the others down; -1: none
  std::string text() const;
};

/// One key of a JSON line; a NaN or an infinity becomes null.
using JsonField = std::pair<std::string, std::variant<bool, std::int64_t, double, std::string>>;

/// Writes one JSON object on one line, keys in the given order, no line end. Bytes that are not UTF-8 are replaced.
std::string json_line(std::span<const JsonField> fields);

/// RUN/log.jsonl: every line reaches the operating system in one write(2), so that a crash leaves only whole lines. A
/// line truncated by a full disk or a power loss is ended before the next one.
class LineLog {
 public:
  /// Opens for appending, creating the file. Throws IoError.
  explicit LineLog(const std::filesystem::path& path);
  /// Appends `line`, which has no newline. Throws IoError.
  void append(std::string_view line);

 private:
  bool ends_in_a_line() const;

  std::filesystem::path path_;
  FileDescriptor file_;
  bool is_sure_ = false;  ///< the file ends in a whole line; false after opening and after an error
};

/// A run's folder. Called on rank 0.
class RunFolder {
 public:
  /// For a new run: creates a missing folder, takes an empty one; UsageError if it has files in it or is not a folder.
  static RunFolder create(const std::filesystem::path& path);
  /// For a resumed run: creates a missing folder, takes any other. Throws IoError for a link that leads nowhere.
  static RunFolder resume(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// For a new run that now has the lock: UsageError if another run left files while this one waited for the lock.
  void require_fresh() const;
  /// Removes the unfinished files of killed processes from the folder. Only with the lock.
  void remove_leftovers() const;
  /// Writes RUN/status.json, flushed to disk if `durable`.
  void write_status(const RunStatus& status, bool durable = true) const;
  /// Writes RUN/config.ini (every option, resolved) unless it has the same contents already.
  void write_config(std::string_view text) const;
  std::filesystem::path log_path() const { return path_ / "log.jsonl"; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace tessera
