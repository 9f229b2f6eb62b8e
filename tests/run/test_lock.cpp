#include <unistd.h>

#include <cstdlib>

#include "child.hpp"
#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/process_owner.hpp"
#include "tessera/run/lock.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;

namespace {

LockSettings within(double patience, bool file_locks = true) {
  LockSettings settings;
  settings.patience = patience;
  settings.patience_with_running = patience / 2;
  settings.file_locks = file_locks;
  return settings;
}

/// Returns the owner.json of a process on another machine.
ProcessOwner elsewhere() {
  ProcessOwner owner = ProcessOwner::me();
  owner.host = "node7";
  owner.system = "another boot";
  owner.job = "12";
  return owner;
}

}  // namespace

TEST_CASE("a run folder has one user") {
  const TemporaryFolder run;
  {
    const RunLock first(run.path(), 0), other_rank(run.path(), 1);
    REQUIRE(first.holds());
    CHECK(folder_has_owner(run.path(), first.nonce()));
    CHECK(first.nonce().size() == 16);
    CHECK_THAT(message_of<UsageError>([&] { RunLock second(run.path(), 0, within(0.1)); }),
               Contains("in use") && Contains(std::to_string(::getpid())));
    ::setenv("SLURM_JOB_ID", "7", 1);  // NOLINT(concurrency-mt-unsafe): there are no other threads
    CHECK_THROWS_AS(RunLock(run.path(), 0, within(0.1)), IoError);
    ::unsetenv("SLURM_JOB_ID");  // NOLINT(concurrency-mt-unsafe)
  }
  CHECK_FALSE(std::filesystem::exists(run / "owner.json"));
  {
    const RunLock straggler(run.path(), 1);
    REQUIRE_THROWS_AS(RunLock(run.path(), 0, within(0.1)), IoError);
  }
  const RunLock again(run.path(), 0, within(0.1));
  REQUIRE(again.holds());
}

TEST_CASE("only rank 0 makes files, and every rank sees whether the folder is rank 0's") {
  const TemporaryFolder run, other;
  REQUIRE_THROWS_AS(RunLock(run.path(), 1, within(0.1)), IoError);
  CHECK(std::filesystem::is_empty(run.path()));
  const RunLock here(run.path(), 0), there(other.path(), 0);
  CHECK_FALSE(folder_has_owner(run.path(), there.nonce()));
  CHECK_FALSE(folder_has_owner(run / "missing", there.nonce()));
}

TEST_CASE("who cannot write owner.json has the lock all the same, and writes it when there is room") {
  const TemporaryFolder run;
  std::filesystem::create_directories(run / "owner.json/x");
  RunLock lock(run.path(), 0);
  CHECK(lock.holds());
  CHECK_THROWS_AS(lock.write_owner(), IoError);
  std::filesystem::remove_all(run / "owner.json");
  lock.write_owner();
  CHECK(folder_has_owner(run.path(), lock.nonce()));
}

TEST_CASE("a lock that a dying process holds is waited for, and its holder is named") {
  const TemporaryFolder run;
  Child holder([&](const auto& wait_to_be_killed) {  // its owner.json names another machine: it cannot be seen to run
    const RunLock lock(run.path(), 0);
    write_file(run / "owner.json", elsewhere().text());
    wait_to_be_killed();
  });
  holder.wait_until_ready();
  LockSettings settings = within(2);
  std::vector<std::string> said;
  settings.say = [&](const std::string& line) { said.push_back(line); };
  CHECK_THAT(message_of<IoError>([&] { RunLock second(run.path(), 0, settings); }),
             Contains("on node7 (Slurm job 12)"));
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Contains("waiting up to 2 s"));
  settings.patience = 60;
  settings.say = [&](const std::string&) { holder.kill(); };
  const RunLock lock(run.path(), 0, settings);
  CHECK(lock.holds());
}

TEST_CASE("without file locks owner.json is the lock") {
  const TemporaryFolder run;
  std::vector<std::string> said;
  LockSettings settings = within(0.1, false);
  settings.say = [&](const std::string& line) { said.push_back(line); };
  {
    const RunLock first(run.path(), 0, settings), other_rank(run.path(), 1, settings);
    CHECK_FALSE(first.holds());
    REQUIRE(said.size() == 1);
    CHECK_THAT(said[0], Contains("without file locks") && Contains("owner.json"));
    REQUIRE_THROWS_AS(RunLock(run.path(), 0, within(0.1, false)), UsageError);
  }
  CHECK_FALSE(std::filesystem::exists(run / "owner.json"));

  // Of a process that may live elsewhere.
  write_file(run / "owner.json", elsewhere().text());
  CHECK_THAT(message_of<IoError>([&] { RunLock second(run.path(), 0, within(0.1, false)); }),
             Contains("node7") && Contains("Remove") && Contains("owner.json"));
  // Of an earlier start of the same Slurm job.
  ::setenv("SLURM_JOB_ID", "12", 1);  // NOLINT(concurrency-mt-unsafe)
  REQUIRE_THROWS_AS(RunLock(run.path(), 0, within(0.1, false)), IoError);
  ::setenv("SLURM_RESTART_COUNT", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  CHECK_NOTHROW(RunLock(run.path(), 0, within(0.1, false)));
  ::unsetenv("SLURM_JOB_ID");         // NOLINT(concurrency-mt-unsafe)
  ::unsetenv("SLURM_RESTART_COUNT");  // NOLINT(concurrency-mt-unsafe)
  // Of one that was here and has ended: another start of this process number.
  ProcessOwner gone = ProcessOwner::me();
  --gone.started;
  write_file(run / "owner.json", gone.text());
  const RunLock after(run.path(), 0, within(0.1, false));
  CHECK(folder_has_owner(run.path(), after.nonce()));
}
