#include "tessera/io/checkpoint_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>

#include "io/file_descriptor.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr std::string_view kPrefix = "step-", kUnfinished = ".tmp";

std::string name_of_step(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

/// N of "step-N"; -1 for any other name.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return -1;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return step >= 0 && name == name_of_step(step) ? step : -1;
}

bool is_unfinished(std::string_view name) { return name.starts_with(kPrefix) && name.ends_with(kUnfinished); }

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError("cannot read folder {} ({})", folder.string(), error.message());
  return names;
}

void remove_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) throw IoError("cannot remove {} ({})", path.string(), error.message());
}

void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw IoError("cannot rename {} to {} ({})", from.string(), to.string(), std::generic_category().message(errno));
}

}  // namespace

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems refuse to sync folders; the rename itself is atomic there all the same.
  if (descriptor && ::fsync(descriptor.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    throw IoError("cannot write folder {} ({})", folder.string(), std::generic_category().message(errno));
  }
}

std::filesystem::path CheckpointFolder::of_step(std::int64_t step) const { return path_ / name_of_step(step); }

std::filesystem::path CheckpointFolder::beside(std::int64_t step) const {
  return path_ / fmt::format("{}{}", name_of_step(step), kUnfinished);
}

std::filesystem::path CheckpointFolder::begin(std::int64_t step) const {
  std::filesystem::path path = beside(step);
  remove_folder(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError("cannot create folder {} ({})", path.string(), error.message());
  return path;
}

void CheckpointFolder::publish(std::int64_t step) const {
  const std::filesystem::path from = beside(step), to = of_step(step);
  sync_folder(from);
  bool replaced = false;
  if (std::filesystem::exists(to)) {
    // Both names exist at every moment: the old checkpoint is complete until the new one is.
    replaced = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
    if (!replaced) {
      const std::filesystem::path old = path_ / fmt::format("{}.old{}", name_of_step(step), kUnfinished);
      remove_folder(old);
      rename_folder(to, old);
    }
  }
  if (!replaced) rename_folder(from, to);
  sync_folder(path_);
  remove_unfinished();
}

void CheckpointFolder::remove_unfinished() const {
  for (const std::string& name : names_in(path_)) {
    if (is_unfinished(name)) remove_folder(path_ / name);
  }
}

void CheckpointFolder::prune(std::int64_t keep, std::int64_t keep_every) const {
  if (keep <= 0) return;
  std::vector<std::int64_t> all = steps();
  std::erase_if(all, [&](std::int64_t step) { return keep_every > 0 && step % keep_every == 0; });
  const std::size_t surplus =
      all.size() > static_cast<std::size_t>(keep) ? all.size() - static_cast<std::size_t>(keep) : 0;
  for (std::size_t i = 0; i < surplus; ++i) {
    // Half a folder must not look like a checkpoint.
    const std::filesystem::path name = of_step(all[i]), beside_name = beside(all[i]);
    rename_folder(name, beside_name);
    remove_folder(beside_name);
  }
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

}  // namespace tessera
