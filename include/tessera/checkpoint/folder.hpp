#pragma once
// Where checkpoints are kept, and how they are added and removed. A folder named step-N is always complete.
//
//   step-N               a checkpoint of the branch that was written last
//   step-N.tmp           being written, or the rest of a deleted one: of no use
//   step-N.after-M       complete, about to become step-N: the newest of all, whatever else is there
//   step-N.abandoned-K   newer than the checkpoint from which the run went on: kept, but no candidate and never pruned
//   step-N/weights       a checkpoint of its parameters alone, which earlier versions could write with it
//   step-N.weights       what is left of such a one once it was pruned: no candidate, and never pruned itself

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The folder in a checkpoint whose weights outlive it.
inline constexpr std::string_view kWeightsFolder = "weights";

/// RUN/checkpoints. Only one process changes it: the holder of the run folder's lock.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  /// Returns PATH/step-00000100
  std::filesystem::path of_step(std::int64_t step) const;
  /// Returns PATH/step-00000100.tmp, where the checkpoint is written.
  std::filesystem::path beside(std::int64_t step) const;
  /// Returns PATH/step-00000100.weights, where the weights of the checkpoint are after it was pruned.
  std::filesystem::path weights_of(std::int64_t step) const;

  /// Throws IoError if the folder is a link to something that does not exist: no checkpoint could be written there.
  void require_target() const;
  /// Finishes the work of a process that died: publishes a complete checkpoint, deletes useless folders. Call it with
  /// the lock, before anything is listed. Returns lines for the user. Throws IoError, also as require_target().
  std::vector<std::string> recover() const;

  /// Makes an empty step-N.tmp. Throws IoError.
  std::filesystem::path begin(std::int64_t step) const;
  /// Turns step-N.tmp, complete and durable in itself, into step-N, the newest checkpoint. An existing step-N is
  /// replaced, never lost. `after` is the previous checkpoint of this branch: newer ones are set aside. Returns a line
  /// about them, or nothing. Throws IoError.
  std::string publish(std::int64_t step, std::int64_t after) const;
  /// Renames every step-N and step-N.weights with N > `step` to NAME.abandoned-K; 0: all, because the run went on from
  /// another branch. Returns a line about them, or nothing. Throws IoError.
  std::string set_aside_newer(std::int64_t step) const;
  /// Deletes all but the `keep` newest (0 = all stay), multiples of keep_every (0 = none), `best`, and `published`. The
  /// weights in a deleted one first become step-N.weights. Also deletes remains of others. A checkpoint that cannot be
  /// deleted stays as it is. Returns a line for each failed deletion.
  std::vector<std::string> prune(std::int64_t keep, std::int64_t keep_every, std::int64_t published,
                                 const std::set<std::int64_t>& best = {}) const;

  /// Returns the steps that have folders, ascending. A missing folder has none.
  std::vector<std::int64_t> steps() const;
  /// Returns whether there is a checkpoint of that step, or one that is set aside, or what is left of one.
  bool knows(std::int64_t step) const;
  /// Returns the checkpoints of the branch that was written last, the newest first.
  std::vector<std::filesystem::path> newest_first() const;

 private:
  struct Pending;
  std::vector<Pending> pending() const;
  std::string finish(const Pending& pending) const;
  std::vector<std::string> remove_unfinished() const;
  std::string keep_weights(std::int64_t step) const;
  std::string remove(std::int64_t step) const;

  std::filesystem::path path_;
};

}  // namespace tessera
