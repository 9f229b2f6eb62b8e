#include <chrono>
#include <thread>

#include "printed_to.hpp"
#include "sweep/attempt.hpp"
#include "sweep/fake_programs.hpp"
#include "sweep/sweep_case.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// Returns whether nothing holds a row's lock. Its processes inherit it: one that was killed lets go a moment later.
bool becomes_free(const std::filesystem::path& row) {
  constexpr int looks = 500;
  for (int look = 0; look < looks && !is_lock_free(row, sweep_lock()); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_lock_free(row, sweep_lock());
}

/// A sweep of one row.
struct AttemptCase {
  explicit AttemptCase(const std::string& text)
      : file(c.read(kSmallRows + text, {"--sweep.dir=" + (c.folder() / "sweep").string()})), row(rows_of(file).at(0)) {
    folder.prepare({row}, Started::here);
  }
  RowStatus attempt(std::int64_t repeat = 1) {
    const RowStatus status =
        attempt_row(folder, row, repeat, {file.sweep, in_job, [](const std::string&) {}, progress_every}, signals);
    const RowStatus written = folder.status(row);
    CHECK((written.state == status.state && written.message == status.message && written.code == status.code));
    CHECK(becomes_free(folder.row(row)));
    return status;
  }
  std::string output() const { return read_file(folder.row(row) / "output.txt"); }

  SweepCase c;
  SweepFile file;
  SweepRow row;
  SweepFolder folder{file};
  SweepSignals signals;
  bool in_job = false;
  double progress_every = 30.0;
};

struct CommandCase : AttemptCase {
  CommandCase() : AttemptCase("[sweep.row a]\nranks = 2\nkind = command\ncommand = true\n") {}
  RowStatus attempt(const std::string& command) {
    row.command = command;
    return AttemptCase::attempt();
  }
};

/// A row that trains; its launcher is a script that plays tessera train. $run is the run's folder.
struct TrainCase : AttemptCase {
  TrainCase() : AttemptCase("[sweep.row a]\nranks = 2\n") {}
  RowStatus attempt(const std::string& script, std::int64_t repeat = 1) {
    const auto path =
        c.folder().write("train.sh", "echo $TESSERA_RANKS ranks: $*\nrun=${4#*=}\nmkdir -p $run\n" + script);
    file.sweep.launcher = "sh '" + path.string() + "'";
    return AttemptCase::attempt(repeat);
  }
};

std::string stop_at(int step, const std::string& more = "") {
  return fmt::format(
      "mkdir -p $run/checkpoints/step-{:08}\necho '{{\"message\": \"asked\"{}}}' >$run/status.json\nexit 75\n", step,
      more);
}

const std::string kRule(30, '-');
/// Longer than the limit of these tests. CHLD has the sweep look at it.
const std::string kOverLimit = "sleep 0.05; kill -CHLD $PPID; sleep 60 & wait";

}  // namespace

TEST_CASE("A command's exit code, result and last words make the state of its row") {
  struct Expected {
    std::string command;
    RowState state;
    int code;
    std::string message;
  };
  CommandCase c;
  int attempts = 0;
  for (const Expected& e : std::vector<Expected>{
           {"true", RowState::failed, 4, "it left no metrics.h5, metrics.json or bench.h5 in "},
           {"sh -c 'echo no PyTorch; exit 77'", RowState::skipped, 0, "no PyTorch"},
           {"sh -c 'echo first; echo; echo last; exit 9'", RowState::failed, 9, "last"},
           {"sh -c 'echo tessera: no luck >&2; echo last; exit 9'", RowState::failed, 9, "no luck"},
           {"sh -c 'echo " + kRule + "; echo a rank; echo died; echo " + kRule + "; echo last; exit 9'",
            RowState::failed, 9, "a rank died"},
           {"sh -c 'echo " + kRule + "; echo Primary job terminated; echo " + kRule + "; echo " + kRule +
                "; echo rank 1 exited on signal 9; echo " + kRule + "; exit 9'",
            RowState::failed, 9, "rank 1 exited on signal 9"},
           {"sh -c 'echo tessera: no luck; kill -KILL $$'", RowState::failed, 137,
            "ended by signal 9 (Killed): no luck"},
           {"/nowhere/program", RowState::failed, 127,
            "/nowhere/program cannot be started (No such file or directory)"},
           {"sh -c 'kill -TERM $PPID; sleep 60 & wait'", RowState::stopped, 143, "asked to end, without a checkpoint"},
           {"sh -c 'echo {} >$0/metrics.json' {run}", RowState::done, 0, ""}}) {
    CAPTURE(e.command);
    const RowStatus status = c.attempt(e.command);
    CHECK(status.state == e.state);
    CHECK(status.code == e.code);
    CHECK(status.message.substr(0, std::max<std::size_t>(e.message.size(), 1)) == e.message);
    CHECK(status.attempts == ++attempts);
    CHECK(status.repeats == (e.state == RowState::done ? 1 : 0));
    CHECK(status.updated >= status.started);
  }
}

TEST_CASE("An attempt's words are those after the attempt before it") {
  CommandCase c;
  CHECK(c.attempt("sh -c 'echo tessera: first; exit 9'").message == "first");
  const RowStatus second = c.attempt("sh -c 'echo second; exit 8'");
  CHECK((second.message == "second" && second.attempts == 2));
  CHECK_THAT(c.output(), Contains("--- attempt 1, ") && Contains("sh -c 'echo tessera: first; exit 9'\ntessera: first\n"
                                                                 "--- attempt 2, "));
}

TEST_CASE("A training is done when it says so, as often as it is to be repeated") {
  TrainCase c;
  c.file.sweep.repeat = 2;
  const RowStatus first = c.attempt("exit 0\n", 1);
  CHECK((first.state == RowState::pending && first.repeats == 1 && first.message == "1 of 2 repeats are done"));
  const RowStatus second = c.attempt("exit 0\n", 2);
  CHECK((second.state == RowState::done && second.repeats == 2 && second.attempts == 2 && second.message.empty()));
  CHECK_THAT(c.output(), Contains("2 ranks: ") && Contains("train " + c.folder.config(c.row).string() +
                                                           " --run.dir=" + c.folder.run(c.row, 2).string() + "\n"));
}

TEST_CASE("A row that is done says what its run has to say") {
  TrainCase c;
  const RowStatus status = c.attempt("echo '{\"message\": \"without metrics\"}' >$run/status.json\n");
  CHECK((status.state == RowState::done && status.message == "without metrics"));
}

TEST_CASE("The progress of a row is said while it runs") {
  TrainCase c;
  c.progress_every = 0.0;
  // CHLD has the sweep look at it.
  const std::string text = printed_to(
      1, [&] { c.attempt("echo '{\"step\": 12, \"steps\": 100}' >$run/status.json\nkill -CHLD $PPID; sleep 0.05\n"); });
  CHECK_THAT(text, Contains("a                    12/100       0 s\n"));
}

TEST_CASE("A training that stops with a checkpoint goes on from it") {
  TrainCase c;
  const RowStatus first = c.attempt(stop_at(40));
  CHECK((first.state == RowState::stopped && first.code == 75));
  CHECK(first.message == "stopped at step 40 with a checkpoint: asked");
  CHECK_THAT(c.output(), !Contains("--checkpoint.resume"));
  CHECK(c.attempt("exit 0\n").state == RowState::done);
  CHECK_THAT(c.output(), Contains("--run.dir=" + c.folder.run(c.row, 1).string() + " --checkpoint.resume=auto\n"));
}

TEST_CASE("A training that stops without a checkpoint says so, and one whose checkpoints are out of reach goes on") {
  TrainCase c;
  c.row.options.checkpoint.resume = "elsewhere/step-00000003";
  CHECK(c.attempt("exit 75\n").message == "stopped before a step was finished, without a checkpoint");
  CHECK(c.attempt("echo '{\"step\": 40, \"checkpoint_bytes\": 7}' >$run/log.jsonl\nexit 4\n").code == 4);
  CHECK_THAT(c.output(), !Contains("--checkpoint.resume"));
  CHECK(c.attempt("exit 0\n").state == RowState::done);
  CHECK_THAT(c.output(), Contains("--checkpoint.resume=auto\n"));
}

TEST_CASE("In a job, a training that stops is started again while it gets on") {
  TrainCase c;
  c.in_job = true;
  c.file.sweep.requeues = 2;
  const RowStatus first = c.attempt(stop_at(40));
  CHECK((first.state == RowState::pending && first.code == 75));
  CHECK_THAT(first.message, Contains("goes on in restart 1 of 2"));
  const FakeVariable restarts("SLURM_RESTART_COUNT", "1");
  const RowStatus still = c.attempt(stop_at(40));
  CHECK(still.state == RowState::timed_out);
  CHECK_THAT(still.message, Contains("no progress"));
  CHECK_THAT(c.attempt(stop_at(50)).message, Contains("goes on in restart 2 of 2"));
  const FakeVariable more("SLURM_RESTART_COUNT", "2");
  const RowStatus last = c.attempt(stop_at(60));
  CHECK(last.state == RowState::timed_out);
  CHECK(last.message == "stopped at step 60 with a checkpoint after 2 restarts (sweep.requeues)");
  CHECK(c.attempt(stop_at(70, R"(, "by_stop_file": true)")).state == RowState::stopped);
}

TEST_CASE("An attempt over its limit has timed out, with a checkpoint or without") {
  TrainCase train;
  train.file.sweep.limit = 0.02;
  const RowStatus saved = train.attempt("save() { " + stop_at(40) + "}\ntrap save USR1\n" + kOverLimit);
  CHECK((saved.state == RowState::timed_out && saved.code == 75));
  CHECK(saved.message == "stopped at step 40 with a checkpoint (sweep.limit = 20 ms)");
  CommandCase command;
  command.file.sweep.limit = 0.02;
  const RowStatus ended = command.attempt("sh -c '" + kOverLimit + "'");
  CHECK((ended.state == RowState::timed_out && ended.code == 143 && ended.message == "over sweep.limit = 20 ms"));
}

TEST_CASE("A row that does not fit is not started, or says so itself") {
  TrainCase c;
  const RowStatus said = c.attempt("echo 'tessera: 1 GB (the run does not fit in it): too much' >&2\nexit 6\n");
  CHECK((said.state == RowState::does_not_fit && said.code == 6));
  CHECK(said.message == "1 GB (the run does not fit in it): too much");
  CHECK(c.attempt("echo tessera: no such file >&2\nexit 2\n").state == RowState::failed);
  c.row.options.plan.memory = 1000;
  const RowStatus planned = c.attempt("exit 0\n");
  CHECK((planned.state == RowState::does_not_fit && planned.code == 0 && planned.attempts == 2));
  CHECK_THAT(planned.message, Contains("plan.memory = 1.00 kB"));
}
