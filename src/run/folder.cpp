#include "tessera/run/folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

namespace {

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

std::string dump(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void make_run_folder(const std::filesystem::path& path) {
  std::error_code error, unseen;
  if (const std::filesystem::path target = missing_target(path); !target.empty()) {
    throw IoError("run.dir = {} is a link to {}, which does not exist. Mount its file system, or make that folder.",
                  path.string(), target.string());
  }
  std::filesystem::create_directories(path, error);
  if (std::filesystem::is_directory(path, unseen)) return;
  for (const std::errc fault : {std::errc::permission_denied, std::errc::read_only_file_system,
                                std::errc::operation_not_permitted, std::errc::no_space_on_device}) {
    if (error == fault) throw IoError("run.dir = {} cannot be created ({})", path.string(), error.message());
  }
  const std::string why = error ? error.message() : unseen ? unseen.message() : "it is not a folder";
  throw refusal("run.dir = {} cannot be used ({})", path.string(), why).hint("Name a folder that can be created");
}

[[noreturn]] void refuse_used(const std::filesystem::path& path, const std::string& name) {
  throw refusal("run.dir = {} has files in it ({}, ...)", path.string(), name)
      .hint("Name a missing or empty folder, or continue that run with checkpoint.resume = auto");
}

}  // namespace

std::string_view name_of(RunState state) {
  constexpr std::array<std::string_view, 4> names{"running", "finished", "stopped", "failed"};
  return names[static_cast<std::size_t>(state)];
}

nlohmann::ordered_json status_json(std::string_view state, const Status& status) {
  const auto utc = [](double time) { return time > 0 ? format_utc(time) : ""; };
  return {{"state", state},
          {"code", status.code},
          {"message", status.message},
          {"started", utc(status.started)},
          {"updated", utc(status.updated)},
          {"started_unix", number(status.started)},
          {"updated_unix", number(status.updated)}};
}

std::string status_text(const nlohmann::ordered_json& json) { return dump(json, 2) + "\n"; }

std::string RunStatus::text() const {
  nlohmann::ordered_json json = status_json(name_of(state), *this);
  json["step"] = step;
  json["steps"] = steps;
  if (checkpoint > 0) json["checkpoint"] = checkpoint;
  if (by_stop_file) json["by_stop_file"] = true;
  if (!validation_losses.empty()) {
    json["evaluated_step"] = evaluated_step;
    json["validation_loss"] = number(validation_losses.front().second);
    for (const auto& [name, loss] : validation_losses) {
      if (!name.empty()) json["validation_losses"][name] = number(loss);
    }
  }
  if (straggler >= 0) json["straggler"] = straggler;
  return status_text(json);
}

std::string json_line(std::span<const JsonField> fields) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const JsonField& field : fields) {
    std::visit(
        [&]<class T>(const T& value) {
          if constexpr (std::is_same_v<T, double>) {
            json[field.first] = number(value);
          } else {
            json[field.first] = value;
          }
        },
        field.second);
  }
  return dump(json, -1);
}

LineLog::LineLog(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!file_) fail_to("open", path);
}

void LineLog::append(std::string_view line) {
  TESSERA_ASSERT(line.find('\n') == std::string_view::npos, "a log line holds no line end");
  const std::string text = fmt::format("{}{}\n", is_sure_ || ends_in_a_line() ? "" : "\n", line);
  is_sure_ = false;
  write_all(file_, path_, text);
  is_sure_ = true;
}

/// A line that ends in the middle is from a killed process, unless another writer is just about to complete it.
bool LineLog::ends_in_a_line() const {
  for (int attempt = 0; attempt < 10; ++attempt) {
    char last = '\n';
    const off_t end = ::lseek(file_.get(), 0, SEEK_END);
    if (end <= 0 || ::pread(file_.get(), &last, 1, end - 1) != 1 || last == '\n') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

RunFolder RunFolder::create(const std::filesystem::path& path) {
  make_run_folder(path);
  std::error_code error;
  const std::vector<std::string> names = names_in(path, error);
  if (error) throw refusal("run.dir = {} cannot be read ({})", path.string(), error.message());
  if (!names.empty()) refuse_used(path, names.front());
  return RunFolder(path);
}

RunFolder RunFolder::resume(const std::filesystem::path& path) {
  make_run_folder(path);
  return RunFolder(path);
}

void RunFolder::require_fresh() const {
  std::error_code unseen;
  for (const std::string& name : names_in(path_, unseen)) {
    const bool is_of_the_lock =
        name == "owner.json" || (name == "log.jsonl" && std::filesystem::file_size(path_ / name, unseen) == 0);
    if (!is_of_the_lock) refuse_used(path_, name);
  }
}

void RunFolder::remove_leftovers() const {
  constexpr std::array<std::string_view, 8> kOurs = {
      "status.json.",    "config.ini.", "owner.json.", "gemm_algorithms.txt.",
      "algorithms.txt.", "metrics",     "dump-",       "samples-"};
  std::error_code ignored;
  for (const std::string& name : names_in(path_, ignored)) {
    const bool is_ours = std::ranges::any_of(kOurs, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (is_ours && name.ends_with(".tmp")) std::filesystem::remove(path_ / name, ignored);
    if (name.starts_with("hugging_face.") && name.ends_with(".tmp"))  // a folder of files
      std::filesystem::remove_all(path_ / name, ignored);
  }
  const std::filesystem::path trace = path_ / "trace";
  for (const std::string& name : names_in(trace, ignored)) {
    if (name.starts_with("steps-") && name.ends_with(".tmp")) std::filesystem::remove(trace / name, ignored);
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
