#pragma once
// Where checkpoints lie, and how they come and go: a folder named step-N is complete, whatever happens.
//
//   step-N               a checkpoint of the branch that was written last
//   step-N.tmp           is being written, or what is left of one that is deleted: of no use
//   step-N.after-M       complete, about to become step-N: the newest of all, whatever else is there
//   step-N.abandoned-K   newer than the checkpoint from which the run went on: kept, but no candidate and never pruned

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// RUN/checkpoints: only one process changes it (the one that holds the run folder's lock).
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  /// PATH/step-00000100
  std::filesystem::path of_step(std::int64_t step) const;
  /// PATH/step-00000100.tmp, where it is written.
  std::filesystem::path beside(std::int64_t step) const;

  /// Finishes what a process that died had begun: what was about to be published is, what is of no use is deleted.
  /// Call it with the lock, before anything is listed. Returns lines for the user. IoError.
  std::vector<std::string> recover() const;

  /// Makes an empty step-N.tmp. IoError.
  std::filesystem::path begin(std::int64_t step) const;
  /// step-N.tmp, complete and durable in itself, becomes step-N and the newest checkpoint; one of that name is
  /// replaced, never lost. `after` is the checkpoint of this branch before it: newer ones are set aside. Returns a line
  /// about them, or nothing. IoError.
  std::string publish(std::int64_t step, std::int64_t after) const;
  /// Renames every step-N with N > `step` to step-N.abandoned-K. Returns a line about them, or nothing. IoError.
  std::string set_aside_newer(std::int64_t step) const;
  /// Deletes all but the `keep` newest (0 = all stay), those of steps that are multiples of keep_every (0 = none), and
  /// `published`; and what is left of others. A checkpoint that cannot be deleted stays as it is. Returns a line for
  /// each thing that could not be deleted.
  std::vector<std::string> prune(std::int64_t keep, std::int64_t keep_every, std::int64_t published) const;

  /// Steps that there are folders of, ascending. A missing folder has none.
  std::vector<std::int64_t> steps() const;
  /// Checkpoints of the branch that was written last, the newest first.
  std::vector<std::filesystem::path> newest_first() const;

 private:
  struct Pending;
  std::vector<Pending> pending() const;
  std::string finish(const Pending& pending) const;
  std::vector<std::string> remove_unfinished() const;
  std::string remove(std::int64_t step) const;

  std::filesystem::path path_;
};

}  // namespace tessera
