#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include "file_support.hpp"
#include "tessera/files/process_owner.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("an owner is read as it was written, and a file that names none is none") {
  const TemporaryFolder run;
  const ProcessOwner mine{"0123456789abcdef", "node7 \"quoted\"", "12", "boot pid:[4026531836]", 4711, 99, 3};
  write_file(run / "owner.json", mine.text());
  const auto read = read_owner(run / "owner.json");
  REQUIRE(read.has_value());
  CHECK((read->nonce == mine.nonce && read->host == mine.host && read->job == mine.job && read->system == mine.system));
  CHECK((read->pid == 4711 && read->started == 99 && read->restarts == 3));
  CHECK_FALSE(read_owner(run / "none"));
  for (const std::string& damaged : {std::string(), mine.text().substr(0, 40), std::string("{}"), std::string("[1]"),
                                     std::string(R"({"nonce":1})")}) {
    write_file(run / "owner.json", damaged);
    CHECK_FALSE(read_owner(run / "owner.json"));
  }
}

TEST_CASE("an owner is named with its machine, and its job where there is one") {
  ProcessOwner owner;
  owner.pid = 4711, owner.host = "node7";
  CHECK(owner.words() == "process 4711 on node7");
  owner.job = "12";
  CHECK(owner.words() == "process 4711 on node7 (Slurm job 12)");
}

TEST_CASE("a process is running, gone, or on a system that cannot be looked at") {
  const ProcessOwner me = ProcessOwner::me();
  CHECK((me.pid == ::getpid() && me.started > 0));
  CHECK(me.nonce != ProcessOwner::me().nonce);
  CHECK(life_of(me) == OwnerLife::running);
  ProcessOwner other = me;
  --other.started;  // an earlier process of this number
  CHECK(life_of(other) == OwnerLife::gone);
  other.pid = 0;
  CHECK(life_of(other) == OwnerLife::gone);
  other.system = "another boot";
  CHECK(life_of(other) == OwnerLife::unknown);
}

TEST_CASE("a process that was killed has ended before its parent has waited for it") {
  const pid_t child = ::fork();
  if (child == 0) ::pause();
  ProcessOwner owner = ProcessOwner::me();
  CHECK_FALSE(has_ended(owner));
  owner.pid = child;
  CHECK(has_ended(owner));  // another process with its number
  owner.started = 0;
  std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
  std::string field;
  for (int i = 0; i < 22; ++i) stat >> field;
  owner.started = std::stoll(field);
  CHECK_FALSE(has_ended(owner));
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  CHECK(has_ended(owner));
  CHECK(life_of(owner) == OwnerLife::unknown);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(has_ended(owner));
  owner.system = "another boot";
  CHECK_FALSE(has_ended(owner));
}
