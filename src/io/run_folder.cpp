#include "tessera/io/run_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/base/format.hpp"
#include "tessera/io/checkpoint_folder.hpp"

namespace tessera {

namespace {

void write_all(int file, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw IoError("cannot write {} ({})", path.string(), std::generic_category().message(errno));
    if (written == 0) throw IoError("cannot write {} (its file system takes no more bytes)", path.string());
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

std::string dump(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error, unseen;
  std::filesystem::create_directories(path, error);
  if (std::filesystem::is_directory(path, unseen)) return;
  for (const std::errc fault : {std::errc::permission_denied, std::errc::read_only_file_system,
                                std::errc::operation_not_permitted, std::errc::no_space_on_device}) {
    if (error == fault) throw IoError("run.dir = {} cannot be created ({})", path.string(), error.message());
  }
  throw UsageError("run.dir = {} cannot be used ({}): name a folder that can be created", path.string(),
                   error    ? error.message()
                   : unseen ? unseen.message()
                            : "it is not a folder");
}

[[noreturn]] void refuse_used(const std::filesystem::path& path, const std::string& name) {
  throw UsageError(
      "run.dir = {} has files in it ({}, ...): name a missing or empty folder, or continue that run with "
      "checkpoint.resume = auto",
      path.string(), name);
}

void sync_file(int file, const std::filesystem::path& path) {
  if (::fsync(file) != 0) throw IoError("cannot write {} ({})", path.string(), std::generic_category().message(errno));
}

/// Room that the file has is not given back before the new text is in it.
void write_over(const std::filesystem::path& path, std::string_view text, bool durable) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) throw IoError("cannot open {} ({})", path.string(), std::generic_category().message(errno));
  write_all(file.get(), text, path);
  if (::ftruncate(file.get(), static_cast<off_t>(text.size())) != 0)
    throw IoError("cannot write {} ({})", path.string(), std::generic_category().message(errno));
  if (durable) sync_file(file.get(), path);
}

}  // namespace

void write_text_atomically(const std::filesystem::path& path, std::string_view text, bool durable) {
  // The process number keeps writers of the same name apart; the last rename wins.
  const std::filesystem::path beside = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  try {
    const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) throw IoError("cannot create {} ({})", beside.string(), std::generic_category().message(errno));
    write_all(file.get(), text, beside);
    if (durable) sync_file(file.get(), beside);
    if (::rename(beside.c_str(), path.c_str()) != 0) {
      throw IoError("cannot rename {} to {} ({})", beside.string(), path.string(),
                    std::generic_category().message(errno));
    }
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  if (durable) sync_folder(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

void replace_text(const std::filesystem::path& path, std::string_view text, bool durable) {
  try {
    write_text_atomically(path, text, durable);
  } catch (const IoError& first) {
    try {
      write_over(path, text, durable);
    } catch (const IoError&) {
      throw first;
    }
  }
}

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::running:
      return "running";
    case RunState::finished:
      return "finished";
    case RunState::stopped:
      return "stopped";
    case RunState::failed:
      return "failed";
  }
  return "?";
}

std::string RunStatus::text() const {
  const nlohmann::ordered_json json = {{"state", name_of(state)},
                                       {"step", step},
                                       {"steps", steps},
                                       {"code", code},
                                       {"message", message},
                                       {"started", format_utc(started)},
                                       {"updated", format_utc(updated)},
                                       {"started_unix", number(started)},
                                       {"updated_unix", number(updated)}};
  return dump(json, 2) + "\n";
}

std::string json_line(std::span<const JsonField> fields) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, value] : fields) {
    std::visit(
        [&, &name = key](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, double>) {
            json[std::string(name)] = number(v);
          } else {
            json[std::string(name)] = v;
          }
        },
        value);
  }
  return dump(json, -1);
}

LineLog::LineLog(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_ < 0) throw IoError("cannot open {} ({})", path.string(), std::generic_category().message(errno));
}

LineLog::~LineLog() { ::close(file_); }

void LineLog::append(std::string_view line) {
  TESSERA_ASSERT(line.find('\n') == std::string_view::npos, "a log line holds no line end");
  const std::string text = fmt::format("{}{}\n", is_sure_ || ends_in_a_line() ? "" : "\n", line);
  is_sure_ = false;
  write_all(file_, text, path_);  // one write(2) unless the disk is full or a signal comes in between
  is_sure_ = true;
}

bool LineLog::ends_in_a_line() const {
  char last = '\n';
  const off_t end = ::lseek(file_, 0, SEEK_END);
  return end <= 0 || ::pread(file_, &last, 1, end - 1) != 1 || last == '\n';
}

RunFolder RunFolder::create(const std::filesystem::path& path) {
  make_folder(path);
  std::error_code error;
  std::filesystem::directory_iterator entries(path, error);
  if (error) throw UsageError("run.dir = {} cannot be read ({})", path.string(), error.message());
  if (entries != std::filesystem::directory_iterator()) refuse_used(path, entries->path().filename().string());
  return RunFolder(path);
}

RunFolder RunFolder::resume(const std::filesystem::path& path, bool must_exist) {
  std::error_code unseen;
  if (must_exist && !std::filesystem::exists(path, unseen)) {
    throw IoError(
        "run.dir = {} is missing, although Slurm has started this job before (SLURM_RESTART_COUNT): mount its file "
        "system on this node, or submit a new job for a fresh start",
        path.string());
  }
  make_folder(path);
  return RunFolder(path);
}

void RunFolder::require_fresh() const {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unseen;
    const bool is_of_the_lock = name == "owner.json" || (name == "log.jsonl" && entry->file_size(unseen) == 0);
    if (!is_of_the_lock) refuse_used(path_, name);
  }
}

void RunFolder::remove_leftovers() const {
  constexpr std::array<std::string_view, 6> kOurs = {"status.json.",  "config.ini.", "owner.json.",
                                                     "products.txt.", "metrics",     "dump-"};
  std::error_code error, ignored;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_ours = std::ranges::any_of(kOurs, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (is_ours && name.ends_with(".tmp")) std::filesystem::remove(entry->path(), ignored);
  }
}

void RunFolder::write_status(const RunStatus& status, bool durable) const {
  replace_text(path_ / "status.json", status.text(), durable);
}

void RunFolder::write_config(std::string_view text) const {
  const std::filesystem::path path = path_ / "config.ini";
  std::ifstream file(path, std::ios::binary);
  if (std::string(std::istreambuf_iterator<char>(file), {}) != text) write_text_atomically(path, text);
}

}  // namespace tessera
