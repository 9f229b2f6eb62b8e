#pragma once
// Where checkpoints lie, and how they come and go: a folder named step-N is complete, whatever happens.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// Flushes a folder's entries to disk; quiet where the file system cannot.
void sync_folder(const std::filesystem::path& folder);

/// RUN/checkpoints: only one process changes it (the one that holds the run folder's lock).
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  /// PATH/step-00000100
  std::filesystem::path of_step(std::int64_t step) const;
  /// PATH/step-00000100.tmp, where it is written.
  std::filesystem::path beside(std::int64_t step) const;

  /// Makes an empty step-N.tmp. IoError.
  std::filesystem::path begin(std::int64_t step) const;
  /// step-N.tmp, complete and durable in itself, becomes step-N; one of that name is replaced, never lost. IoError.
  void publish(std::int64_t step) const;
  /// Deletes what a process that died left: step-N.tmp.
  void remove_unfinished() const;
  /// Deletes all but the `keep` newest (0 = all stay) and those of steps that are multiples of keep_every (0 = none).
  void prune(std::int64_t keep, std::int64_t keep_every) const;

  /// Steps that there are folders of, ascending. A missing folder has none.
  std::vector<std::int64_t> steps() const;

 private:
  std::filesystem::path path_;
};

}  // namespace tessera
