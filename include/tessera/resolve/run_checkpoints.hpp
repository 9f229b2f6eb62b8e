#pragma once
// Where checkpoints are, by the words that users have for them.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Returns the checkpoint at PATH: PATH itself, or the newest one of the run in that folder; nothing if it is neither.
std::optional<std::filesystem::path> checkpoint_in(const std::filesystem::path& path);

/// Returns the checkpoint folders that checkpoint.resume names, the best first. auto means all of the run's, newest
/// first; PATH is a checkpoint or a run's folder. Throws UsageError if PATH is neither, and IoError if the run has
/// published checkpoints of which none is there: they are out of reach, and a run must not begin again over them.
std::vector<std::filesystem::path> resume_candidates(const std::string& resume, const std::filesystem::path& run);

/// Returns a line about the last checkpoint that a run has published, if it is gone although older ones are there;
/// nothing otherwise. Whoever deletes it on purpose goes back in the run, so that this is no error.
std::string describe_missing(const std::filesystem::path& run);

/// Throws UsageError if a checkpoint has only weights, as earlier versions could leave: a run cannot go on from it.
void require_full_state(const std::filesystem::path& checkpoint, const Manifest& manifest);

}  // namespace tessera
