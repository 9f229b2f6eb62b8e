#include "sweep/folder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sweep/text_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

namespace {

using Json = nlohmann::ordered_json;
using Path = std::filesystem::path;

constexpr std::array<std::string_view, 8> kStates = {"pending",      "running",   "done",    "failed",
                                                     "does-not-fit", "timed-out", "stopped", "skipped"};  // by RowState
constexpr std::array<std::string_view, 3> kStarted = {"not yet", "run", "submit"};                        // by Started

template <class Value, class Names>
Value named(const Names& names, const std::string& name, const Path& file) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw refusal("{}: '{}' is not a word that a sweep writes", file.string(), name).hint("Move the file away");
  return static_cast<Value>(found - names.begin());
}

/// Reads JSON; nothing if there is no such file. Throws UsageError if it is not a JSON object.
std::optional<Json> read_json(const Path& path) try {
  const std::optional<std::string> text = read_small_file(path);
  if (!text) return std::nullopt;
  Json json = Json::parse(*text);
  if (!json.is_object()) throw refusal("{} is not a JSON object", path.string()).hint("Move the file away");
  return json;
} catch (const nlohmann::json::exception&) {
  throw refusal("{} is damaged", path.string()).because("it is not JSON").hint("Move the file away");
}

/// Returns one path for all names of a file.
std::string whole_name(const Path& path) {
  std::error_code error;
  const Path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path.string() : whole.string();
}

}  // namespace

std::string_view name_of(RowState state) { return kStates.at(static_cast<std::size_t>(state)); }

SweepFolder::SweepFolder(const SweepFile& file) : path_(file.sweep.dir), file_(file) {}

Path SweepFolder::run(const SweepRow& row, std::int64_t repeat) const {
  return path_ / row.name / (repeat == 1 ? "run" : fmt::format("run.{}", repeat));
}

void SweepFolder::require_own() const {
  const auto json = read_json(path_ / "sweep.json");
  if (!json) return;
  const std::string there = json->value("file", ""), mine = whole_name(file_.path);
  // A file that was moved, with the folders around it, keeps its own name.
  const bool was_moved = Path(there).filename() == Path(mine).filename() && !path_exists(there);
  if (there != mine && !was_moved) {
    throw refusal("sweep.dir = {} is the folder of {}", path_.string(), there).use("another folder for {}", mine);
  }
}

Started SweepFolder::started() const {
  require_own();
  const auto json = read_json(path_ / "sweep.json");
  return json ? named<Started>(kStarted, json->value("started", "not yet"), path_ / "sweep.json") : Started::not_yet;
}

Started SweepFolder::require_started() const {
  const Started how = started();
  if (how == Started::not_yet)
    throw refusal("{} is not a sweep that was started", path_.string()).use("sweep.action = run or submit first");
  const auto ranks = read_json(path_ / "sweep.json")->value("ranks", std::vector<std::int64_t>{});
  if (ranks != file_.sweep.ranks) {
    throw refusal("{} was started {}", path_.string(),
                  ranks.empty() ? "without sweep.ranks" : fmt::format("with --sweep.ranks={}", fmt::join(ranks, ",")))
        .use("the same here");
  }
  return how;
}

std::string SweepFolder::config_text(const SweepRow& row) const {
  std::string text =
      fmt::format("# Row {} of {}, on {}.\n", row.name, file_.path.filename().string(), counted(row.ranks, "rank"));
  if (!row.trains()) text += fmt::format("# command = {}\n", row.command);
  std::string section;
  for (const std::string& word : train_arguments(row.options)) {  // --section.key=value
    const std::size_t dot = word.find('.'), equals = word.find('=');
    if (const std::string here = word.substr(2, dot - 2); here != section)
      text += fmt::format("\n[{}]\n", section = here);
    text += fmt::format("{} = {}\n", word.substr(dot + 1, equals - dot - 1), ini_value(word.substr(equals + 1)));
  }
  return text;
}

/// The sweep's own file may change while the row waits in the queue.
std::string SweepFolder::row_text(const SweepRow& row) const {
  std::string text = fmt::format("[sweep]\nrepeat = {}\nrequeues = {}\n\n[sweep.row {}]\nranks = {}\n",
                                 file_.sweep.repeat, file_.sweep.requeues, row.name, row.ranks);
  if (!row.trains()) text += fmt::format("kind = command\ncommand = {}\n", ini_value(row.command));
  return text + "\n" + config_text(row);
}

void SweepFolder::prepare(const std::vector<SweepRow>& rows, Started how) const {
  require_own();
  for (const SweepRow& row : rows) {
    const auto old = read_small_file(config(row));
    const bool has_begun = path_exists(run(row, 1)) || status(row).attempts > 0;
    if (old && has_begun && *old != config_text(row)) {
      throw refusal("row {} has begun with other options, which {} holds", row.name, config(row).string())
          .use("another sweep.dir, or remove the row's folder");
    }
  }
  Json json = {{"format", 1},
               {"name", file_.sweep.name},
               {"file", whole_name(file_.path)},
               {"base", file_.sweep.base.empty() ? Json() : Json(file_.sweep.base)},
               {"arguments", Json::array()},
               {"ranks", file_.sweep.ranks},
               {"baseline", file_.sweep.baseline.empty() ? Json() : Json(file_.sweep.baseline)},
               {"repeat", file_.sweep.repeat},
               {"started", kStarted.at(static_cast<std::size_t>(how))},
               {"rows", Json::array()}};
  for (const std::vector<Setting>* const settings : {&file_.arguments, &file_.sweep_arguments}) {
    for (const Setting& setting : *settings) {
      if (settings == &file_.arguments || setting.name == "sweep.ranks")
        json["arguments"].push_back(fmt::format("--{}={}", setting.name, setting.value));
    }
  }
  for (const SweepRow& row : rows) {
    json["rows"].push_back({{"name", row.name}, {"ranks", row.ranks}, {"kind", row.trains() ? "train" : "command"}});
    make_folder(this->row(row));
    if (read_small_file(config(row)) != config_text(row)) write_text_atomically(config(row), config_text(row));
    if (how == Started::by_slurm) write_text_atomically(this->row(row) / "row.ini", row_text(row));
    if (!path_exists(this->row(row) / "status.json")) write_status(row, {});
  }
  write_text_atomically(path_ / "sweep.ini", file_.text);
  if (!file_.base_text.empty()) write_text_atomically(path_ / "base.ini", file_.base_text);
  write_text_atomically(path_ / "sweep.json", json.dump(2) + "\n");
}

bool SweepFolder::has_same_files() const {
  return read_small_file(path_ / "sweep.ini") == file_.text &&
         (file_.base_text.empty() || read_small_file(path_ / "base.ini") == file_.base_text);
}

RowStatus SweepFolder::read_status(const SweepRow& row) const {
  const Path file = path_ / row.name / "status.json";
  const auto json = read_json(file);
  RowStatus status;
  if (!json) return status;
  try {
    const bool is_earlier = !json->contains("state");  // by a version that had names of its own for rows
    status.state = named<RowState>(kStates, json->at(is_earlier ? "status" : "state"), file);
    status.message = json->at("message");
    status.code = json->at("code");
    status.attempts = json->at("attempts");
    status.repeats = json->at("repeats");
    status.started = json->at(is_earlier ? "started" : "started_unix");
    status.updated = json->at(is_earlier ? "ended" : "updated_unix");
    if (const Json& load = json->at("load_average"); load.is_number()) status.load = load;
    status.host = json->at("host");
    status.job = json->at("job");
  } catch (const nlohmann::json::exception& error) {
    throw refusal("{} is damaged ({})", file.string(), error.what()).hint("Remove the row's folder to begin it again");
  }
  return status;
}

RowStatus SweepFolder::status(const SweepRow& row) const {
  RowStatus status = read_status(row);
  if (status.state == RowState::running && is_lock_free(path_ / row.name, sweep_lock())) {
    status = read_status(row);  // it may have ended since
    if (status.state == RowState::running) {
      status.state = RowState::failed;
      status.code = static_cast<int>(ExitCode::communication);
      status.message = "what ran it was killed, or could not write here (a full disk)";
      status.was_killed = true;
    }
  }
  // sweep.repeat may have changed.
  if (status.state == RowState::done && status.repeats < file_.sweep.repeat) status.state = RowState::pending;
  if (status.state == RowState::pending && status.repeats >= file_.sweep.repeat) status.state = RowState::done;
  return status;
}

void SweepFolder::write_status(const SweepRow& row, const RowStatus& status) const {
  Json json = status_json(name_of(status.state), status);
  json.update({{"status", name_of(status.state)},  // its name in earlier versions
               {"ranks", row.ranks},
               {"attempts", status.attempts},
               {"repeats", status.repeats},
               {"load_average", status.load},
               {"host", status.host},
               {"job", status.job}});
  write_text_atomically(path_ / row.name / "status.json", status_text(json));
}

std::vector<SweepRow> started_rows(SweepFile& file) {
  const SweepFolder folder(file);
  folder.require_started();
  const Path path = folder.path() / "sweep.json";
  const Json json = read_json(path).value();
  try {
    file.sweep.repeat = json.value("repeat", file.sweep.repeat);
    std::vector<SweepRow> rows;
    for (const Json& row : json.at("rows")) rows.push_back({row.at("name"), row.at("ranks"), {}, {}});
    return rows;
  } catch (const nlohmann::json::exception& error) {
    throw refusal("{} is damaged ({})", path.string(), error.what()).hint("Start the sweep again");
  }
}

LockSettings sweep_lock(const std::function<void(const std::string&)>& say) {
  LockSettings settings;
  settings.file = "lock";
  settings.option = "sweep.dir";
  settings.say = say;
  return settings;
}

}  // namespace tessera
