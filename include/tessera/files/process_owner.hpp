#pragma once
// The process that uses a folder, as a file names it: RUN/owner.json, and the lock of a text cache. In addition to a
// run folder's lock it only names the holder; without locks, creating the file is the lock.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

struct ProcessOwner {
  std::string nonce;  ///< drawn at random: tells folders of the same name apart
  std::string host, job;
  std::string system;  ///< boot and process namespace: two processes of one system see each other in /proc
  std::int64_t pid = 0, started = 0;  ///< `started` in clock ticks since boot: process numbers are reused
  std::int64_t restarts = 0;          ///< of the Slurm job

  /// Describes this process; `job` and `restarts` as Slurm has them.
  static ProcessOwner me();
  /// Returns JSON, one line.
  std::string text() const;
  /// Returns "process 4711 on node7 (Slurm job 12)".
  std::string words() const;
};

/// Returns nothing if there is no such file or it does not name an owner.
std::optional<ProcessOwner> read_owner(const std::filesystem::path& path);

/// Removes the file of the owner with this nonce ("": of none that it names). Moves it to `aside`, a name of this process
/// alone, to look at it: if another process was faster, the file is that one's, and goes back. A process that is killed
/// in between leaves `aside`.
void remove_owner(const std::filesystem::path& path, const std::string& nonce, const std::filesystem::path& aside);

/// `unknown`: on another system, or here and about to end.
enum class OwnerLife : std::uint8_t { unknown, running, gone };
OwnerLife life_of(const ProcessOwner& owner);

/// Returns the state of an owner on this system as /proc names it: 'T' stopped, 'Z' ended, 'X' gone; '?' on another.
char state_of(const ProcessOwner& owner);

/// Returns whether an owner on this system runs no code any more: it is gone, or was not yet waited for by its parent.
/// Its locks may be held a little longer.
bool has_ended(const ProcessOwner& owner);

}  // namespace tessera
