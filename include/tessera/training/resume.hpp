#pragma once
// Continuing from a checkpoint: which one, whether it fits the run, and each rank reading its share.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "tessera/checkpoint/folder.hpp"
#include "tessera/resolve/run_checkpoints.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// What resuming needs in addition to schedule and memory.
struct ResumeSettings {
  const Options& options;
  const PlannedRun& planned;
  const Dataset& data;
  std::filesystem::path run;                    ///< the run's folder, in which `auto` looks
  int threads = 1;                              ///< that read
  std::function<void(const std::string&)> say;  ///< a line for the user; called on rank 0
};

/// Throws UsageError if the first of the checkpoints that checkpoint.resume names with a readable manifest does not fit
/// the run. Called before a run folder is touched.
void require_fitting(const ResumeSettings& settings);

/// Loads by checkpoint.resume. auto takes the newest checkpoint that is complete and undamaged, and reports those
/// passed over. A checkpoint that the system does not let a rank read is not passed over (IoError). Loads nothing if
/// there is none at all, but a folder with only damaged ones is an error, because a fresh start would prune them. Empty
/// for `none`. Collective when called. Throws UsageError if the checkpoint does not fit and checkpoint.allow does not
/// say so, and IoError if none can be read. All references must outlive it.
StateLoader state_loader(RankContext& context, const ResumeSettings& settings);

/// Returns whether checkpoint.resume names another checkpoint of `step` than the run's own of that step: then all its own
/// are of a branch that it leaves. IoError if one cannot be read.
bool leaves_branch(const CheckpointFolder& own, const std::string& resume, std::int64_t step);

}  // namespace tessera
