#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "file_support.hpp"
#include "sweep/child.hpp"
#include "sweep/fake_programs.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

struct ChildCase {
  /// Runs a shell's script as a child.
  ChildEnd run(const std::string& script, double limit = 0.0) {
    settings.words = {"sh", "-c", script};
    settings.output = folder / "output";
    settings.stop_signal = SIGUSR1;
    settings.limit = limit;
    return run_child(settings, signals);
  }
  std::string output() const { return read_file(folder / "output"); }

  TemporaryFolder folder;
  ChildSettings settings;
  SweepSignals signals;
};

/// Waits until a process has ended, at most ten seconds. Its end may still wait to be noticed by its parent.
bool ends(const std::string& process) {
  for (int i = 0; i < 1000; ++i) {
    const std::string about = read_file("/proc/" + process + "/stat");
    if (about.empty() || about.find(") Z ") != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("A child's output is appended, its input is empty, its exit code is told") {
  ChildCase c;
  c.folder.write("output", "before\n");
  CHECK(c.run("readlink /proc/$$/fd/0; echo out; echo error >&2; exit 3").code == 3);
  CHECK(c.output() == "before\n/dev/null\nout\nerror\n");
  CHECK(c.run("exit 0").code == 0);
  CHECK(c.signals.asked() == 0);
}

TEST_CASE("A child has this process's variables, and those that are given instead") {
  ChildCase c;
  const FakeVariable kept("TESSERA_TEST_KEPT", "kept"), replaced("TESSERA_TEST_SET", "before");
  c.settings.environment = {{"TESSERA_TEST_SET", "after"}};
  c.settings.words = {"env"};
  c.settings.output = c.folder / "output";
  run_child(c.settings, c.signals);
  CHECK_THAT("\n" + c.output(), Contains("\nTESSERA_TEST_KEPT=kept\n") && Contains("\nTESSERA_TEST_SET=after\n") &&
                                    !Contains("TESSERA_TEST_SET=before"));
}

TEST_CASE("The signal that ended a child, and a program that cannot be started, are told") {
  ChildCase c;
  const ChildEnd killed = c.run("kill -KILL $$");
  CHECK(killed.code == 128 + SIGKILL);
  CHECK(killed.why_not_started.empty());
  c.settings.words = {"/nowhere/program"};
  const ChildEnd missing = run_child(c.settings, c.signals);
  CHECK(missing.code == 127);
  CHECK(missing.why_not_started == "/nowhere/program cannot be started (No such file or directory)");
}

TEST_CASE("A child over its limit may end by itself") {
  ChildCase c;
  // CHLD has the limit looked at, once the trap is set.
  const ChildEnd end = c.run("trap 'echo saved; exit 75' USR1; sleep 0.05; kill -CHLD $PPID; sleep 60 & wait", 0.02);
  CHECK(end.over_limit);
  CHECK(end.code == 75);
  CHECK(c.output() == "saved\n");
  CHECK_FALSE(c.run("exit 4", 60.0).over_limit);
}

TEST_CASE("A child that is asked to end gets its stop signal, then TERM, then KILL") {
  ChildCase c;
  CHECK(c.run("trap 'exit 9' USR1; kill -TERM $PPID; sleep 60 & wait").code == 9);
  CHECK(c.signals.asked() == 1);
  CHECK_FALSE(c.signals.was_warning());
  CHECK(c.run("trap '' USR1; kill -TERM $PPID; kill -INT $PPID; sleep 60 & wait").code == 128 + SIGTERM);
  CHECK(c.signals.asked() == 3);
  const std::string deaf = "trap '' USR1 TERM; for s in TERM INT USR1; do kill -$s $PPID; done; sleep 60 & wait";
  CHECK(c.run(deaf).code == 128 + SIGKILL);
  CHECK(c.signals.asked() == 6);
}

TEST_CASE("Nothing that a child started outlives it") {
  ChildCase c;
  CHECK(c.run("sleep 60 & echo $!; (trap '' TERM USR1; sleep 60) & echo $!").code == 0);
  std::istringstream processes(c.output());
  int count = 0;
  for (std::string process; std::getline(processes, process); ++count) CHECK(ends(process));
  CHECK(count == 2);
}

TEST_CASE("Slurm's warning is told from other signals, and an ignored signal is none") {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGHUP, &ignore, &before);
  {
    SweepSignals signals;
    ::kill(::getpid(), SIGHUP);
    CHECK_FALSE(signals.wait(0.0));
    ::kill(::getpid(), SIGUSR1);
    CHECK(signals.wait(10.0));
    CHECK(signals.was_warning());
    ::kill(::getpid(), SIGTERM);
    CHECK(signals.wait(10.0));
    CHECK_FALSE(signals.was_warning());
    CHECK(signals.asked() == 2);
  }
  ::sigaction(SIGHUP, &before, nullptr);
}

TEST_CASE("A program's standard output and exit code are read whole") {
  const auto [code, text] = output_of({"sh", "-c", "yes | head -c 100000; echo $WORD; exit 5"}, {{"WORD", "end"}});
  CHECK(code == 5);
  CHECK(text.size() == 100004);
  CHECK_THAT(text, Catch::EndsWith("end\n"));
  CHECK(output_of({"/nowhere/program"}).first == 127);
}

TEST_CASE("A program is found in the first folder of PATH where it can be started") {
  const FakePrograms second(Scripts{{"tessera-tool", "exit 0\n"}}), first(Scripts{});
  first.folder().write("tessera-tool", "no program");
  std::filesystem::permissions(first.folder() / "tessera-tool", std::filesystem::perms::owner_read);
  CHECK(find_program("tessera-tool") == (second.folder() / "tessera-tool").string());
  CHECK(find_program("tessera-nowhere").empty());
}
