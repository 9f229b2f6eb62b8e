#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/run/folder.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;

TEST_CASE("a run folder may be missing or empty, not used") {
  const TemporaryFolder folder;
  const auto run = folder / "a/b";
  CHECK(RunFolder::create(run).path() == run);
  CHECK(std::filesystem::is_directory(run));
  RunFolder::create(run);  // empty
  write_file(run / "notes", "mine");
  const std::string message = message_of<UsageError>([&] { RunFolder::create(run); });
  CHECK_THAT(message, Contains(run.string()) && Contains("notes") && Contains("checkpoint.resume"));
  CHECK(read_file(run / "notes") == "mine");
  CHECK(RunFolder::resume(run).path() == run);
  CHECK(RunFolder::resume(folder / "c").path() == folder / "c");
  write_file(folder / "file", "");
  for (const auto& path : {folder / "file", folder / "file/below"})
    CHECK_THAT(message_of<UsageError>([&] { RunFolder::create(path); }), Contains("cannot be used"));
  const std::string long_name(300, 'x');  // a file system takes 255
  const std::string refused = message_of<UsageError>([&] { RunFolder::create(folder / long_name); });
  CHECK_THAT(refused, Contains("run.dir = ") && Contains(long_name) && Contains("too long"));
  CHECK_THROWS_AS(RunFolder::resume(folder / long_name), UsageError);
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK_THROWS_AS(RunFolder::create(folder / "loop"), UsageError);
}

TEST_CASE("status.json says how a run stands") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path());
  RunStatus status;
  status.state = RunState::stopped;
  status.step = 120;
  status.steps = 1000;
  status.code = 75;
  status.message = "walltime \"soon\"\n\xff";
  status.started = 1700000000.25;
  run.write_status(status);
  const auto json = nlohmann::json::parse(read_file(folder / "status.json"));
  CHECK(json["state"] == "stopped");
  CHECK(json["step"] == 120);
  CHECK(json["steps"] == 1000);
  CHECK(json["code"] == 75);
  CHECK_THAT(json["message"].get<std::string>(), Contains("walltime \"soon\"\n"));
  CHECK(json["started"] == "2023-11-14T22:13:20Z");
  CHECK(json["started_unix"] == 1700000000.25);
  for (const auto& [state, name] : {std::pair(RunState::running, "running"), std::pair(RunState::finished, "finished"),
                                    std::pair(RunState::failed, "failed")}) {
    CHECK(name_of(state) == name);
  }
}

TEST_CASE("log lines are whole JSON objects, appended by several writers") {
  const TemporaryFolder folder;
  const auto path = folder / "log.jsonl";
  std::vector<std::thread> writers;
  for (std::int64_t w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      LineLog log(path);
      for (std::int64_t i = 0; i < 200; ++i) {
        const std::vector<JsonField> fields = {{"writer", w},
                                               {"step", i},
                                               {"loss", 1.0 / 3.0},
                                               {"bad", std::nan("")},
                                               {"text", std::string(static_cast<std::size_t>(i), 'x') + "\n\"\xff"},
                                               {"last", true}};
        log.append(json_line(fields));
      }
    });
  }
  for (auto& writer : writers) writer.join();
  std::ifstream file(path);
  std::set<std::pair<int, int>> seen;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    CHECK(json["loss"].get<double>() == 1.0 / 3.0);
    CHECK(json["bad"].is_null());
    CHECK(json["last"] == true);
    seen.emplace(json["writer"].get<int>(), json["step"].get<int>());
  }
  CHECK(seen.size() == 600);
  CHECK(json_line(std::vector<JsonField>{{"b", std::int64_t{1}}, {"a", false}}) == "{\"b\":1,\"a\":false}");
  CHECK_THROWS_AS(LineLog(folder / "missing/log"), IoError);
  LineLog log(path);
  CHECK_THROWS_AS(log.append("two\nlines"), InternalError);
  LineLog full("/dev/full");
  CHECK_THROWS_AS(full.append("x"), IoError);
}

TEST_CASE("a start that waited for the lock sees the files that the other one left") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder / "run");
  write_file(run.log_path(), "");
  write_file(run.path() / "owner.json", "mine");
  run.require_fresh();
  write_file(run.log_path(), "{}\n");
  CHECK_THAT(message_of<UsageError>([&] { run.require_fresh(); }), Contains("log.jsonl"));
  write_file(run.log_path(), "");
  write_file(run.path() / "config.ini", "");
  CHECK_THAT(message_of<UsageError>([&] { run.require_fresh(); }), Contains("config.ini"));
}

TEST_CASE("a folder that is a link to nothing is not made, and named with where it leads") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "scratch/run", folder / "run");
  const auto told = Contains("run is a link to " + (folder / "scratch/run").string() + ", which does not exist. Mount");
  CHECK_THAT(message_of<IoError>([&] { RunFolder::resume(folder / "run"); }), told);
  CHECK_THAT(message_of<IoError>([&] { RunFolder::create(folder / "run"); }), told);
  std::filesystem::create_directories(folder / "scratch/run");
  CHECK(RunFolder::resume(folder / "run").path() == folder / "run");
}

TEST_CASE("what killed processes left beside files goes, nothing else") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path());
  const std::vector<std::string> left = {"status.json.123.tmp", "config.ini.4.tmp",    "owner.json.9.tmp",
                                         "metrics.1.h5.tmp",    "metrics.h5.copy.tmp", "dump-00000003.h5.tmp"};
  const std::vector<std::string> others = {"status.json", "notes.tmp", "metrics.h5", "log.jsonl"};
  for (const std::string& name : left) write_file(run.path() / name, "x");
  for (const std::string& name : others) write_file(run.path() / name, "x");
  std::filesystem::create_directories(run.path() / "hugging_face.123-0.tmp/tokenizer");
  run.remove_leftovers();
  CHECK_FALSE(std::filesystem::exists(run.path() / "hugging_face.123-0.tmp"));
  for (const std::string& name : left) CHECK_FALSE(std::filesystem::exists(run.path() / name));
  for (const std::string& name : others) CHECK(std::filesystem::exists(run.path() / name));
}

TEST_CASE("a status is written over the one before where there is no room for another file") {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder.path());
  // Nothing can be written next to it.
  std::filesystem::create_directory(folder / ("status.json." + std::to_string(::getpid()) + ".tmp"));
  RunStatus status;
  CHECK_THROWS_AS(run.write_status(status), IoError);  // there is none yet
  write_file(folder / "status.json", std::string(5000, ' '));
  status.state = RunState::failed;
  status.code = 4;
  run.write_status(status);
  CHECK(read_file(folder / "status.json") == status.text());
}

TEST_CASE("a log line begins on a line of its own, whatever was cut off before") {
  const TemporaryFolder folder;
  write_file(folder / "log", "{\"step\":1}\n{\"st");
  {
    LineLog log(folder / "log");
    log.append("{\"step\":2}");
    log.append("{\"step\":3}");
  }
  LineLog(folder / "log").append("{\"step\":4}");
  CHECK(read_file(folder / "log") == "{\"step\":1}\n{\"st\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n");
}
