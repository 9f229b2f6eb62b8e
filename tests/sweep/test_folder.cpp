#include <cmath>
#include <nlohmann/json.hpp>

#include "sweep/folder.hpp"
#include "sweep/sweep_case.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

using Json = nlohmann::ordered_json;

/// The folder of a sweep with the rows a (trains) and b (a command).
struct FolderCase {
  explicit FolderCase(const std::vector<std::string>& words = {}) : file(read(words)), rows(rows_of(file)) {}
  SweepFile read(std::vector<std::string> words) const {
    words.insert(words.end(), {"--sweep.dir=" + (c.folder() / "sweep").string(), "--optim.lr=1e-3"});
    return c.read(std::string(kSmallRows) +
                      "[sweep]\nbaseline = a\n[sweep.row a]\ndata.source = \"my # tokens\"\n"
                      "[sweep.row b]\nranks = 2\nkind = command\ncommand = run {ranks}\n",
                  words);
  }
  std::string refused() const {
    return message_of<UsageError>([&] { folder.prepare(rows, Started::here); });
  }
  RowStatus status() const { return folder.status(rows[0]); }
  /// Writes row a's status.json.
  void write(const std::string& text) const { c.folder().write("sweep/a/status.json", text); }
  void write(RowState state, std::int64_t repeats) const {
    RowStatus status;
    status.state = state;
    status.attempts = 1;
    status.repeats = repeats;
    folder.write_status(rows[0], status);
  }

  SweepCase c;
  SweepFile file;
  std::vector<SweepRow> rows;
  SweepFolder folder{file};
};

}  // namespace

TEST_CASE("A sweep's folder holds the rows in order, and the options of each") {
  const FolderCase c;
  CHECK(c.folder.started() == Started::not_yet);
  c.folder.prepare(c.rows, Started::by_slurm);
  CHECK(c.folder.started() == Started::by_slurm);
  const Json json = Json::parse(read_file(c.folder.path() / "sweep.json"));
  CHECK((json.at("name") == "demo" && json.at("baseline") == "a" && json.at("base").is_null()));
  CHECK(json.at("arguments") == Json::parse(R"(["--optim.lr=1e-3"])"));
  CHECK(read_file(c.folder.path() / "sweep.ini") == c.file.text);
  CHECK_FALSE(std::filesystem::exists(c.folder.path() / "base.ini"));
  CHECK(json.at("rows") == Json::parse(R"([{"name":"a","ranks":1,"kind":"train"},
                                           {"name":"b","ranks":2,"kind":"command"}])"));
  const Options again = resolve(c.folder.config(c.rows[0]), {});
  CHECK(again.data == c.rows[0].options.data);
  CHECK(again.model == c.rows[0].options.model);
  CHECK_THAT(read_file(c.folder.config(c.rows[1])), Contains("on 2 ranks") && Contains("# command = run {ranks}\n"));
  CHECK(c.status().state == RowState::pending);
  CHECK(c.folder.run(c.rows[0], 1) == c.folder.path() / "a/run");
  CHECK(c.folder.run(c.rows[0], 3) == c.folder.path() / "a/run.3");
}

TEST_CASE("sweep.ranks is recorded, and whoever asks for the rows later gives the same") {
  const FolderCase c({"--sweep.ranks=2,4"});
  CHECK_THROWS_WITH(c.folder.require_started(), Contains("is not a sweep that was started"));
  c.folder.prepare(c.rows, Started::here);
  CHECK(c.folder.require_started() == Started::here);
  const Json json = Json::parse(read_file(c.folder.path() / "sweep.json"));
  CHECK(json.at("arguments") == Json::parse(R"(["--optim.lr=1e-3", "--sweep.ranks=2,4"])"));
  CHECK(json.at("baseline").is_null());
  SweepFile other = c.file;
  other.sweep.ranks = {};
  CHECK_THROWS_WITH(SweepFolder(other).require_started(),
                    Contains("was started with --sweep.ranks=2,4. Use the same here."));
}

TEST_CASE("A sweep has the rows with which it was started, whatever its file says now") {
  FolderCase c;
  c.file.sweep.repeat = 3;
  c.folder.prepare(c.rows, Started::here);
  CHECK_FALSE(std::filesystem::exists(c.folder.path() / "a/row.ini"));  // of jobs only
  c.file.sweep.repeat = 1;
  const std::vector<SweepRow> rows = started_rows(c.file);
  CHECK((names_of(rows) == std::vector<std::string>{"a", "b"} && rows[1].ranks == 2 && c.file.sweep.repeat == 3));
  const auto json = Json::parse(read_file(c.folder.path() / "sweep.json"));
  for (const char* const key : {"name", "ranks"}) {
    auto damaged = json;
    damaged["rows"][1].erase(key);
    c.c.folder().write("sweep/sweep.json", damaged.dump());
    CHECK_THROWS_WITH(started_rows(c.file), Contains("sweep.json is damaged"));
  }
}

TEST_CASE("A sweep's folder keeps the base as it was") {
  FolderCase c;
  c.file.sweep.base = "small/demo.ini", c.file.base_text = "[model]\nlayers = 1\n";
  c.folder.prepare(c.rows, Started::here);
  CHECK(read_file(c.folder.path() / "base.ini") == c.file.base_text);
  CHECK(Json::parse(read_file(c.folder.path() / "sweep.json")).at("base") == "small/demo.ini");
}

TEST_CASE("A folder of another file is refused, the same file under another name is not") {
  FolderCase c;
  c.folder.prepare(c.rows, Started::here);
  const auto own = c.file.path;
  c.file.path = own.parent_path() / "x/../demo.ini";
  CHECK_NOTHROW(c.folder.prepare(c.rows, Started::here));
  c.file.path = own.parent_path() / "other.ini";
  CHECK_THAT(c.refused(),
             Contains("is the folder of " + std::filesystem::canonical(own).string()) && Contains("other.ini"));
  // Moved: of the same name, and the old one is gone.
  c.file.path = c.c.folder().write("moved/demo.ini", c.file.text);
  CHECK_THAT(c.refused(), Contains("is the folder of "));
  std::filesystem::remove(own);
  CHECK_NOTHROW(c.folder.prepare(c.rows, Started::here));
  CHECK(Json::parse(read_file(c.folder.path() / "sweep.json")).at("file") ==
        std::filesystem::canonical(c.file.path).string());
  std::filesystem::remove(c.file.path);
  c.file.path = c.c.folder().write("moved/other.ini", c.file.text);
  CHECK_THAT(c.refused(), Contains("is the folder of "));
  CHECK_THROWS_AS(c.folder.started(), UsageError);
}

TEST_CASE("A row's options may change until it has begun") {
  FolderCase c;
  c.folder.prepare(c.rows, Started::here);
  SweepFile other = c.read({"--train.steps=7"});
  c.rows = rows_of(other);
  c.folder.prepare(c.rows, Started::here);
  CHECK_THAT(read_file(c.folder.config(c.rows[0])), Contains("[train]\nsteps = 7\n"));
  c.write(RowState::failed, 0);
  CHECK_NOTHROW(c.folder.prepare(c.rows, Started::here));
  CHECK(c.status().state == RowState::failed);
  other = c.read({"--train.steps=8"});
  c.rows = rows_of(other);
  CHECK_THAT(c.refused(), Contains("row a has begun with other options") && Contains("config.ini"));
  CHECK_THAT(read_file(c.folder.config(c.rows[0])), Contains("steps = 7\n"));
}

TEST_CASE("A status is read as it was written") {
  const FolderCase c;
  c.folder.prepare(c.rows, Started::here);
  RowStatus status;
  status.state = RowState::timed_out;
  status.message = "a \"word\"\xff";
  status.code = 75;
  status.attempts = 3;
  status.started = 1.5;
  status.updated = 2.5;
  status.host = "node1";
  status.job = "12_3";
  c.folder.write_status(c.rows[0], status);
  const RowStatus again = c.status();
  CHECK(again.state == RowState::timed_out);
  CHECK(again.message == "a \"word\"\xef\xbf\xbd");
  CHECK((again.code == 75 && again.attempts == 3 && again.started == 1.5 && again.updated == 2.5));
  CHECK((again.host == "node1" && again.job == "12_3"));
  CHECK(std::isnan(again.load));
  status.load = 0.25;
  c.folder.write_status(c.rows[0], status);
  CHECK(c.status().load == 0.25);
  Json json = Json::parse(read_file(c.folder.path() / "a/status.json"));
  CHECK((json["state"] == "timed-out" && json["status"] == "timed-out" && json["code"] == 75));
  CHECK((json["started"] == "1970-01-01T00:00:01Z" && json["started_unix"] == 1.5 && json["updated_unix"] == 2.5));
  // Earlier versions had other names.
  for (const char* const key : {"state", "started_unix", "updated", "updated_unix"}) json.erase(key);
  json["status"] = "stopped", json["started"] = 3.5, json["ended"] = 4.5;
  c.write(json.dump());
  const RowStatus earlier = c.status();
  CHECK((earlier.state == RowState::stopped && earlier.started == 3.5 && earlier.updated == 4.5 && earlier.code == 75));
}

TEST_CASE("A row runs while its lock is held; afterwards what ran it was killed") {
  const FolderCase c;
  c.folder.prepare(c.rows, Started::here);
  c.write(RowState::running, 0);
  {
    const RunLock lock(c.folder.row(c.rows[0]), 0, sweep_lock());
    CHECK_FALSE(is_lock_free(c.folder.row(c.rows[0]), sweep_lock()));
    CHECK(is_lock_free(c.folder.row(c.rows[1]), sweep_lock()));
    CHECK(c.status().state == RowState::running);
    CHECK_FALSE(c.status().may_start());
  }
  CHECK(is_lock_free(c.folder.row(c.rows[0]), sweep_lock()));
  const RowStatus status = c.status();
  CHECK((status.state == RowState::failed && status.was_killed && status.may_start()));
  CHECK(status.message == "what ran it was killed, or could not write here (a full disk)");
  CHECK(status.code == static_cast<int>(ExitCode::communication));
}

TEST_CASE("A row is done when it has the repeats that are wanted today") {
  const FolderCase once, twice({"--sweep.repeat=2"});
  for (const FolderCase* c : {&once, &twice}) c->folder.prepare(c->rows, Started::here);
  for (const RowState state : {RowState::done, RowState::pending}) {
    for (const FolderCase* c : {&once, &twice}) c->write(state, 1);
    CHECK(once.status().state == RowState::done);
    CHECK(twice.status().state == RowState::pending);
  }
  twice.write(RowState::failed, 1);
  CHECK(twice.status().state == RowState::failed);
}

TEST_CASE("A damaged file of a sweep is named") {
  const FolderCase c;
  c.folder.prepare(c.rows, Started::here);
  const auto error = [&] { return message_of<UsageError>([&] { c.status(); }); };
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"{\"status\":", " is damaged, because it is not JSON."},
           {"[]", " is not a JSON object"},
           {R"({"status": "finished"})", ": 'finished' is not a word that a sweep writes"},
           {R"({"status": "done"})", " is damaged ("},
           {R"({"status": 3})", " is damaged ("}}) {
    CAPTURE(text);
    c.write(text);
    CHECK_THAT(error(), Contains("a/status.json" + expected));
  }
  c.c.folder().write("sweep/sweep.json", "{}x");
  CHECK_THAT(c.refused(), Contains("sweep/sweep.json is damaged"));
}
