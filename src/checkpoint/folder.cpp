#include "tessera/checkpoint/folder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "tessera/base/decimal.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/records.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

namespace {

constexpr std::string_view kPrefix = "step-", kUnfinished = ".tmp", kPending = ".after-", kAbandoned = ".abandoned-",
                           kWeights = ".weights";

std::string name_of_step(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

/// Returns N of "step-N"; -1 for any other name.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return -1;
  const std::int64_t step = whole_number(name.substr(kPrefix.size())).value_or(-1);
  return step >= 0 && name == name_of_step(step) ? step : -1;
}

/// Returns N of "step-N.weights"; -1 for any other name.
std::int64_t step_of_weights(std::string_view name) {
  return name.ends_with(kWeights) ? step_of(name.substr(0, name.size() - kWeights.size())) : -1;
}

bool is_unfinished(std::string_view name) { return name.starts_with(kPrefix) && name.ends_with(kUnfinished); }

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::string> names = tessera::names_in(folder, error);
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError("cannot read folder {} ({})", folder.string(), error.message());
  return names;
}

}  // namespace

/// A folder step-N.after-M.
struct CheckpointFolder::Pending {
  std::int64_t step = 0, after = 0;
  std::filesystem::path path;
};

std::filesystem::path CheckpointFolder::of_step(std::int64_t step) const { return path_ / name_of_step(step); }

std::filesystem::path CheckpointFolder::beside(std::int64_t step) const {
  return path_ / fmt::format("{}{}", name_of_step(step), kUnfinished);
}

std::filesystem::path CheckpointFolder::weights_of(std::int64_t step) const {
  return path_ / fmt::format("{}{}", name_of_step(step), kWeights);
}

std::filesystem::path CheckpointFolder::begin(std::int64_t step) const {
  std::filesystem::path path = beside(step);
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) throw IoError("cannot remove {} ({})", path.string(), error.message());
  const bool is_first = std::filesystem::create_directories(path_, error);
  if (!error) std::filesystem::create_directory(path, error);
  if (error) throw IoError("cannot create folder {} ({})", path.string(), error.message());
  if (is_first) sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
  return path;
}

std::string CheckpointFolder::publish(std::int64_t step, std::int64_t after) const {
  const Pending pending{step, after, path_ / fmt::format("{}{}{:08}", name_of_step(step), kPending, after)};
  sync_folder(beside(step));
  // This rename decides: after an interruption between it and the last rename, recover() does the rest.
  rename_file(beside(step), pending.path);
  sync_folder(path_);
  return finish(pending);
}

std::string CheckpointFolder::finish(const Pending& pending) const {
  std::string line = set_aside_newer(pending.after);
  std::error_code error;
  if (std::filesystem::exists(of_step(pending.step), error)) rename_file(of_step(pending.step), beside(pending.step));
  rename_file(pending.path, of_step(pending.step));
  sync_folder(path_);
  return line;
}

std::string CheckpointFolder::set_aside_newer(std::int64_t step) const {
  std::int64_t branch = 1;
  std::vector<std::string> moved;
  for (const std::string& name : names_in(path_)) {
    if (step_of_weights(name) > step) moved.push_back(name);
    const std::size_t mark = name.rfind(kAbandoned);
    if (mark != std::string::npos)
      branch = std::max(branch, 1 + whole_number(std::string_view(name).substr(mark + kAbandoned.size())).value_or(0));
  }
  // The newest goes last, because until then `auto` takes it, with all its predecessors.
  for (const std::int64_t newer : steps()) {
    if (newer > step) moved.push_back(name_of_step(newer));
  }
  for (const std::string& name : moved)
    rename_file(path_ / name, path_ / fmt::format("{}{}{}", name, kAbandoned, branch));
  if (moved.empty()) return {};
  sync_folder(path_);
  return fmt::format("{}: {} this run went on: kept as {}{}, no longer used or pruned", fmt::join(moved, ", "),
                     step > 0 ? fmt::format("newer than step {}, from which", step)
                              : "of another branch than the checkpoint from which",
                     moved.size() == 1 ? moved.front() + std::string(kAbandoned) : "step-N" + std::string(kAbandoned),
                     branch);
}

void CheckpointFolder::require_target() const {
  const std::filesystem::path target = missing_target(path_);
  if (target.empty()) return;
  throw IoError(
      "{} is a link to {}, which does not exist. Mount its file system, make that folder, or remove the link.",
      path_.string(), target.string());
}

std::vector<std::string> CheckpointFolder::recover() const {
  require_target();
  std::vector<std::string> lines;
  for (const Pending& one : pending()) {
    lines.push_back(fmt::format("{} is complete: it becomes {}", one.path.string(), name_of_step(one.step)));
    const std::string line = finish(one);
    if (!line.empty()) lines.push_back(line);
  }
  for (std::string& line : remove_unfinished()) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> CheckpointFolder::remove_unfinished() const {
  std::vector<std::string> lines;
  for (const std::string& name : names_in(path_)) {
    if (!is_unfinished(name)) continue;
    std::error_code error;
    std::filesystem::remove_all(path_ / name, error);
    if (error)
      lines.push_back(fmt::format("cannot delete {} ({}): it is of no use, and fills the disk until it is deleted",
                                  (path_ / name).string(), error.message()));
  }
  return lines;
}

/// Gives the weights in a checkpoint that is about to be deleted their own folder. Returns why that failed, or nothing.
std::string CheckpointFolder::keep_weights(std::int64_t step) const {
  const std::filesystem::path inside = of_step(step) / std::string(kWeightsFolder), kept = weights_of(step);
  std::error_code error;
  const bool has_weights = std::filesystem::exists(inside, error);
  if (error) return fmt::format("cannot look into {} ({}): the checkpoint stays", inside.string(), error.message());
  if (!has_weights) return {};
  // Older weights of that name are from a run that wrote this step before.
  if (std::filesystem::exists(kept, error))
    std::filesystem::rename(kept, kept.string() + std::string(kUnfinished), error);
  if (::rename(inside.c_str(), kept.c_str()) != 0)
    return fmt::format("cannot rename {} to {} ({}): the checkpoint stays, complete", inside.string(), kept.string(),
                       last_error());
  sync_folder(path_);  // before its only other copy is deleted
  return {};
}

/// Removes the manifest first, then the name, because half a folder must not look like a checkpoint; of a link only the
/// name, because a checkpoint that was moved elsewhere was moved to stay. Returns why it stays, or nothing.
std::string CheckpointFolder::remove(std::int64_t step) const {
  const std::filesystem::path path = of_step(step);
  std::error_code unseen;
  const bool is_link = std::filesystem::is_symlink(path, unseen);
  if (!is_link) {
    if (std::string failure = keep_weights(step); !failure.empty()) return failure;
    if (::unlink((path / std::string(kManifestName)).c_str()) != 0 && errno != ENOENT)
      return fmt::format("cannot delete {} ({}): it stays, complete", path.string(), last_error());
  }
  if (::rename(path.c_str(), beside(step).c_str()) != 0)
    return fmt::format("cannot delete {} ({}): {}", path.string(), last_error(),
                       is_link ? "the link stays" : "its manifest is gone, its other files stay");
  return {};
}

std::vector<std::string> CheckpointFolder::prune(std::int64_t keep, std::int64_t keep_every, std::int64_t published,
                                                 const std::set<std::int64_t>& best) const {
  std::vector<std::int64_t> all = keep > 0 ? steps() : std::vector<std::int64_t>{};
  std::erase_if(all, [&](std::int64_t step) { return step > published || (keep_every > 0 && step % keep_every == 0); });
  const std::size_t surplus =
      all.size() - std::min(all.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, keep)));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < surplus; ++i) {
    if (best.contains(all[i])) continue;
    std::string line = remove(all[i]);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  if (surplus > 0) sync_folder(path_);  // the names are gone before the files are deleted
  for (std::string& line : remove_unfinished()) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(path_)) {
    const std::int64_t step = step_of(name);
    if (step >= 0) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool CheckpointFolder::knows(std::int64_t step) const {
  const std::string own = name_of_step(step);
  return std::ranges::any_of(names_in(path_),
                             [&](const std::string& name) { return name == own || name.starts_with(own + "."); });
}

std::vector<CheckpointFolder::Pending> CheckpointFolder::pending() const {
  std::vector<Pending> all;
  for (const std::string& name : names_in(path_)) {
    const std::size_t mark = name.find(kPending);
    if (mark == std::string::npos) continue;
    const std::int64_t step = step_of(std::string_view(name).substr(0, mark));
    const auto after = whole_number(std::string_view(name).substr(mark + kPending.size()));
    if (step >= 0 && after && *after >= 0) all.push_back({step, *after, path_ / name});
  }
  return all;
}

std::vector<std::filesystem::path> CheckpointFolder::newest_first() const {
  std::vector<std::int64_t> all = steps();
  std::vector<std::filesystem::path> paths;
  for (const Pending& one : pending()) {
    paths.push_back(one.path);
    std::erase_if(all, [&](std::int64_t step) { return step > one.after; });
  }
  for (auto step = all.rbegin(); step != all.rend(); ++step) paths.push_back(of_step(*step));
  return paths;
}

}  // namespace tessera
