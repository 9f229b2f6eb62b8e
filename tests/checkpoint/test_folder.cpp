// How checkpoints are made and deleted: in which order, and what a crash between any two calls leaves. Also failed
// deletions.
#include <cerrno>

#include "checkpoint/block_file.hpp"
#include "checkpoint_case.hpp"
#include "file_spy.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/run/folder.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

using StepList = std::vector<std::int64_t>;

void write_simple(const CheckpointFolder& folder, std::int64_t step, const std::string& content = "whole") {
  const auto path = folder.begin(step);
  write_file(path / "shard-00000.h5", content);
  write_file(path / std::string(kManifestName), "{}");
}

void make(const CheckpointFolder& folder, std::int64_t step, std::int64_t after, const std::string& content = "whole") {
  write_simple(folder, step, content);
  folder.publish(step, after);
}

/// 10, 20, 30 and so on, each after the one before.
void make_branch(const CheckpointFolder& folder, const StepList& steps) {
  std::int64_t after = 0;
  for (const std::int64_t step : steps) {
    make(folder, step, after);
    after = step;
  }
}

/// Writes weights into the unfinished checkpoint of a step.
void write_weights(const CheckpointFolder& folder, std::int64_t step, const std::string& content = "weights") {
  const auto path = folder.beside(step) / std::string(kWeightsFolder);
  std::filesystem::create_directory(path);
  write_file(path / std::string(kManifestName), content);
}

bool is_whole(const std::filesystem::path& checkpoint) {
  return std::filesystem::exists(checkpoint / std::string(kManifestName)) &&
         std::filesystem::exists(checkpoint / "shard-00000.h5");
}

bool exists(const CheckpointFolder& folder, const std::string& name) {
  return std::filesystem::exists(folder.path() / name);
}

bool has_weights(const CheckpointFolder& folder, const std::string& name, const std::string& content = "weights") {
  return exists(folder, name + "/manifest.json") && read_file(folder.path() / name / "manifest.json") == content;
}

/// Calls task(); from call number `calls` on every call on files fails, as after a SIGKILL. Returns whether it came to
/// that.
template <class F>
bool killed_after(int calls, F&& task) {
  file_spy::start();
  file_spy::rule("", "checkpoints", EIO, calls);
  bool failed = false;
  try {
    task();
  } catch (const IoError&) {
    failed = true;
  }
  return static_cast<int>(file_spy::stop().size()) == calls && failed;
}

}  // namespace

TEST_CASE("checkpoints come whole, go whole, and what was left unfinished goes") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  REQUIRE(folder.steps().empty());
  for (const std::int64_t step : {10, 20, 30, 40, 50}) {
    folder.begin(step);
    write_file(folder.beside(step) / "content", std::to_string(step));
    folder.publish(step, step - 10);
  }
  folder.begin(60);
  std::filesystem::create_directories(run / "checkpoints/step-7");  // not a checkpoint of Tessera
  REQUIRE(folder.steps() == std::vector<std::int64_t>{10, 20, 30, 40, 50});
  folder.begin(50);
  write_file(folder.beside(50) / "content", "again");
  folder.publish(50, 50);
  REQUIRE(read_file(folder.of_step(50) / "content") == "again");
  REQUIRE(folder.prune(2, 20, 50).empty());
  REQUIRE(!std::filesystem::exists(folder.beside(60)));
  REQUIRE(folder.steps() == std::vector<std::int64_t>{20, 30, 40, 50});
  folder.prune(0, 0, 50);
  REQUIRE(folder.steps().size() == 4);
  folder.prune(2, 0, 50, {20, 50});
  REQUIRE(folder.steps() == std::vector<std::int64_t>{20, 40, 50});
  folder.prune(1, 0, 50);
  REQUIRE(folder.steps() == std::vector<std::int64_t>{50});
  REQUIRE(std::filesystem::exists(run / "checkpoints/step-7"));
}

TEST_CASE("going back keeps what is written") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  make_branch(folder, {40, 50, 60});
  // From a copy of step 20 elsewhere: newer ones are set aside by the first checkpoint.
  write_simple(folder, 25);
  const std::string line = folder.publish(25, 20);
  REQUIRE(line.find("step-00000040, step-00000050, step-00000060") != std::string::npos);
  REQUIRE(line.find("abandoned-1") != std::string::npos);
  REQUIRE(folder.prune(3, 0, 25).empty());
  REQUIRE(folder.steps() == StepList{25});
  REQUIRE(is_whole(folder.path() / "step-00000060.abandoned-1"));
  // A run that goes on from one of its checkpoints: at once.
  make(folder, 30, 25), make(folder, 35, 30);
  REQUIRE(!folder.set_aside_newer(25).empty());
  REQUIRE(folder.set_aside_newer(25).empty());
  REQUIRE(folder.steps() == StepList{25});
  make(folder, 35, 25);
  REQUIRE(folder.prune(1, 0, 35).empty());
  REQUIRE(folder.steps() == StepList{35});
  REQUIRE(is_whole(folder.path() / "step-00000035.abandoned-2"));
  REQUIRE(is_whole(folder.path() / "step-00000040.abandoned-1"));
}

TEST_CASE("a newer checkpoint does not count as one of those that are kept") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  make_branch(folder, {10, 20, 30});
  REQUIRE(folder.prune(1, 0, 20).empty());
  REQUIRE(folder.steps() == StepList{20, 30});
}

TEST_CASE("a link to a checkpoint that was moved elsewhere goes, and the checkpoint stays whole") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  make_branch(folder, {10, 20});
  const auto moved = run / "archive";
  std::filesystem::create_directory(folder.of_step(10) / std::string(kWeightsFolder));
  std::filesystem::rename(folder.of_step(10), moved);
  std::filesystem::create_directory_symlink(moved, folder.of_step(10));
  REQUIRE(folder.steps() == StepList{10, 20});
  REQUIRE(folder.prune(1, 0, 20).empty());
  REQUIRE(folder.steps() == StepList{20});
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  REQUIRE(is_whole(moved));
  REQUIRE(std::filesystem::exists(moved / std::string(kWeightsFolder)));
}

TEST_CASE("weights outlive the checkpoint that they were written with, and are no candidates") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  for (const std::int64_t step : {10, 20, 30, 40}) {
    write_simple(folder, step);
    if (step % 20 == 0) write_weights(folder, step);
    folder.publish(step, step - 10);
    REQUIRE(folder.prune(1, 30, step).empty());
  }
  REQUIRE(folder.steps() == StepList{30, 40});
  REQUIRE(has_weights(folder, "step-00000020.weights"));
  REQUIRE(has_weights(folder, "step-00000040/weights"));
  REQUIRE(folder.newest_first() == std::vector{folder.of_step(40), folder.of_step(30)});
  folder.recover();
  REQUIRE(folder.prune(1, 0, 40).empty());
  REQUIRE(has_weights(folder, "step-00000020.weights"));
  // A run that goes on from 10 leaves them behind, and writes its own.
  REQUIRE(folder.set_aside_newer(10).find("step-00000020.weights, step-00000040: newer than step 10") == 0);
  REQUIRE(has_weights(folder, "step-00000020.weights.abandoned-1"));
  REQUIRE(has_weights(folder, "step-00000040.abandoned-1/weights"));
  write_simple(folder, 20), write_weights(folder, 20, "second"), folder.publish(20, 10);
  make(folder, 30, 20);
  REQUIRE(folder.prune(1, 0, 30).empty());
  REQUIRE(has_weights(folder, "step-00000020.weights", "second"));
  REQUIRE(has_weights(folder, "step-00000020.weights.abandoned-1"));
}

TEST_CASE("killed between any two calls of a deletion, the weights are there once") {
  bool ended = false;
  int kept = 0;
  for (int calls = 0; !ended; ++calls) {
    INFO("killed after " << calls << " calls");
    const TemporaryFolder run;
    const CheckpointFolder folder(run / "checkpoints");
    // Weights of that name are left from a run that wrote step 10 before.
    write_simple(folder, 10), write_weights(folder, 10, "new"), folder.publish(10, 0);
    std::filesystem::create_directory(folder.weights_of(10));
    write_file(folder.weights_of(10) / std::string(kManifestName), "old");
    make(folder, 20, 10);
    ended = !killed_after(calls, [&] {
      if (!folder.prune(1, 0, 20).empty()) throw IoError("not deleted");
    });
    const bool inside = has_weights(folder, "step-00000010/weights", "new");
    const bool outside = has_weights(folder, "step-00000010.weights", "new");
    REQUIRE(inside != outside);
    REQUIRE((outside || is_whole(folder.of_step(10))));
    kept += int{outside};
    folder.recover();
    REQUIRE(folder.prune(1, 0, 20).empty());
    REQUIRE(has_weights(folder, "step-00000010.weights", "new"));
    REQUIRE(folder.steps() == StepList{20});
    REQUIRE(!exists(folder, "step-00000010.tmp"));
    REQUIRE(!exists(folder, "step-00000010.weights.tmp"));
    REQUIRE(calls < 100);
  }
  REQUIRE(kept > 3);
}

TEST_CASE("killed between any two calls, the branch that was written last is found") {
  bool ended = false;
  int decided = 0;
  for (int calls = 0; !ended; ++calls) {
    INFO("killed after " << calls << " calls");
    const TemporaryFolder run;
    const CheckpointFolder folder(run / "checkpoints");
    make_branch(folder, {40, 50, 60});
    write_simple(folder, 45);
    ended = !killed_after(calls, [&] {
      folder.publish(45, 40);
      if (!folder.prune(1, 0, 45).empty()) throw IoError("not deleted");
    });
    const auto before = folder.newest_first();
    folder.recover();
    const auto after = folder.newest_first();
    REQUIRE(is_whole(after.front()));
    REQUIRE(!exists(folder, "step-00000045.tmp"));
    if (after.front() == folder.of_step(45)) {
      ++decided;
      REQUIRE(folder.steps().back() == 45);
    } else {
      REQUIRE(decided == 0);
      REQUIRE(after.front() == folder.of_step(60));
    }
    // A reader without the lock sees the same checkpoint.
    REQUIRE(before.front().filename().string().substr(0, 13) == after.front().filename().string());
    for (const std::string newer : {"step-00000050", "step-00000060"})
      REQUIRE((is_whole(folder.path() / newer) || is_whole(folder.path() / (newer + ".abandoned-1")) ||
               is_whole(folder.path() / (newer + ".abandoned-2"))));  // 2: of the one that recover() found
    REQUIRE(calls < 100);
  }
  REQUIRE(decided > 5);
}

TEST_CASE("killed between any two calls, a checkpoint that is replaced is there, the old one or the new one") {
  bool ended = false;
  for (int calls = 0; !ended; ++calls) {
    INFO("killed after " << calls << " calls");
    const TemporaryFolder run;
    const CheckpointFolder folder(run / "checkpoints");
    make(folder, 10, 0, "old");
    write_simple(folder, 10, "new");
    ended = !killed_after(calls, [&] {
      folder.publish(10, 10);
      if (!folder.prune(1, 0, 10).empty()) throw IoError("not deleted");
    });
    const std::string seen = read_file(folder.newest_first().at(0) / "shard-00000.h5");
    folder.recover();
    REQUIRE(folder.steps() == StepList{10});
    REQUIRE(is_whole(folder.of_step(10)));
    REQUIRE(read_file(folder.of_step(10) / "shard-00000.h5") == seen);
    REQUIRE(seen == (calls < 2 ? "old" : "new"));
    REQUIRE(calls < 100);
  }
}

TEST_CASE("what a process that died left goes before anything is listed") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  REQUIRE(folder.recover().empty());
  make_branch(folder, {10, 20});
  write_simple(folder, 30);
  std::filesystem::create_directories(run / "checkpoints/step-7");  // not a checkpoint of Tessera
  REQUIRE(folder.recover().empty());
  REQUIRE(!std::filesystem::exists(folder.beside(30)));
  REQUIRE(exists(folder, "step-7"));
  REQUIRE(folder.steps() == StepList{10, 20});
}

TEST_CASE("a checkpoint that cannot be deleted keeps its name and its files") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  make_branch(folder, {10, 20, 30});
  file_spy::start();
  file_spy::rule("unlink", "step-00000010", EPERM);
  const auto lines = folder.prune(1, 0, 30);
  const auto calls = file_spy::stop();
  REQUIRE(lines.size() == 1);
  REQUIRE(lines.at(0).find("step-00000010 (Operation not permitted): it stays") != std::string::npos);
  REQUIRE(folder.steps() == StepList{10, 30});
  REQUIRE(is_whole(folder.of_step(10)));
  // A deleted one loses its manifest first, then its name, and only then its files.
  const auto at = [&](const std::string& call) {
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (calls[i].find(call) != std::string::npos) return i;
    FAIL("no " << call);
    return calls.size();
  };
  const std::string name = folder.of_step(20).string();
  REQUIRE(at("unlink " + name + "/manifest.json") < at("rename " + name + " " + name + ".tmp"));
  REQUIRE(at("rename " + name + " " + name + ".tmp") < at("fsync " + folder.path().string()));
  REQUIRE(at("fsync " + folder.path().string()) < at("unlink " + name + ".tmp/shard-00000.h5"));

  make(folder, 40, 30);
  file_spy::start();
  file_spy::rule("unlink", "step-00000030.tmp/shard", EBUSY);
  const auto left = folder.prune(1, 0, 40);
  file_spy::stop();
  REQUIRE(left.size() == 1);
  REQUIRE(left.at(0).find("step-00000030.tmp (Device or resource busy)") != std::string::npos);
  REQUIRE(folder.steps() == StepList{40});
  REQUIRE(!exists(folder, "step-00000030.tmp/manifest.json"));
  REQUIRE(folder.prune(1, 0, 40).empty());
  REQUIRE(!exists(folder, "step-00000030.tmp"));
}

TEST_CASE("a folder that cannot be opened or synced is an error") {
  const TemporaryFolder run;
  for (const std::string call : {"open", "fsync"}) {
    file_spy::start();
    file_spy::rule(call, run.path().string(), EMFILE);
    const std::string message = message_of<IoError>([&] { sync_folder(run.path()); });
    file_spy::stop();
    REQUIRE(message.find("Too many open files") != std::string::npos);
  }
  file_spy::start();
  file_spy::rule("fsync", run.path().string(), EINVAL);  // a file system that cannot
  sync_folder(run.path());
  file_spy::stop();
}

TEST_CASE("a file system that takes no bytes is an error") {
  const TemporaryFolder run;
  write_file(run / "shard", "");
  const FileDescriptor shard = open_file(run / "shard", OpenFor::writing);
  file_spy::start();
  file_spy::rule("write", "status", file_spy::kReturnsZero, 0, 9);  // ten times at most: the test ends
  file_spy::rule("pwrite", "shard", file_spy::kReturnsZero, 0, 9);
  const std::string text = message_of<IoError>([&] { write_text_atomically(run / "status.json", "text"); });
  const std::string block = message_of<IoError>([&] { write_at(shard, run / "shard", 0, "text", 4); });
  file_spy::stop();
  REQUIRE(text.find("takes no more bytes") != std::string::npos);
  REQUIRE(block.find("takes no more bytes") != std::string::npos);
}
