#include "tessera/resolve/run_checkpoints.hpp"

#include <fmt/format.h>

#include "tessera/base/refuse.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/run/published.hpp"

namespace tessera {

namespace {

/// Returns a run's checkpoints, the newest first. Throws IoError if there is none although there must be some, with
/// `advice` at the end: a run that began again would replace them.
std::vector<std::filesystem::path> newest_first(const std::filesystem::path& run, std::string_view advice = {}) {
  const CheckpointFolder folder(run / "checkpoints");
  std::vector<std::filesystem::path> all = folder.newest_first();
  if (!all.empty()) return all;
  const auto published = published_checkpoint(run);
  if (!published) {
    folder.require_target();
    return {};
  }
  const std::filesystem::path target = missing_target(folder.path());
  throw IoError(
      "{} {}, although the run has published checkpoints, the last one of step {}. Mount the file system that has "
      "them, or move them back.{}",
      folder.path().string(),
      target.empty() ? "has no checkpoint" : fmt::format("is a link to {}, which does not exist", target.string()),
      *published, advice);
}

}  // namespace

std::vector<std::filesystem::path> resume_candidates(const std::string& resume, const std::filesystem::path& run) {
  if (resume == "auto")
    return newest_first(run, " To train from the beginning, name a new run.dir. Nothing was changed in this one.");
  const std::filesystem::path path(resume);
  if (path_exists(path / std::string(kManifestName))) return {path};
  const auto of_run = newest_first(path);
  if (!of_run.empty()) return {of_run.front()};
  std::error_code unseen;
  if (std::filesystem::is_directory(path, unseen) && path.filename().string().starts_with("step-")) return {path};
  throw refusal("checkpoint.resume = {} is neither a checkpoint nor a run with checkpoints", resume)
      .because("it has no {}", kManifestName)
      .use("none, auto, or the folder of one");
}

std::string describe_missing(const std::filesystem::path& run) {
  const CheckpointFolder folder(run / "checkpoints");
  const std::vector<std::int64_t> there = folder.steps();
  const auto published = published_checkpoint(run);
  if (there.empty() || !published || *published <= there.back() || folder.knows(*published)) return {};
  return fmt::format(
      "missing    {}, the last checkpoint that this run has published. The newest there is of step {}; rows of later "
      "steps are kept in metrics*.before-step-{}",
      folder.of_step(*published).string(), there.back(), there.back() + 1);
}

void require_full_state(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  if (manifest.content == StateContent::full) return;
  throw refusal("checkpoint.resume = {} holds weights only", checkpoint.string())
      .because("the optimizer's state was left out of it")
      .use("a checkpoint step-N, or model.from = {}, which starts a new run from these weights", checkpoint.string());
}

std::optional<std::filesystem::path> checkpoint_in(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::nullopt;
  try {
    const std::filesystem::path whole = std::filesystem::absolute(path, error);
    if (error) return std::nullopt;
    return resume_candidates(whole.string(), path).front();
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

}  // namespace tessera
