#include "printed_to.hpp"
#include "sweep/actions.hpp"
#include "sweep/sweep_case.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// Commands in place of trainings: `good` leaves a result, `bad` does so once the file `repaired` is there.
struct RunCase {
  explicit RunCase(const std::vector<std::string>& words = {}) {
    const std::string script = c.folder()
                                   .write("row.sh",
                                          "test $1 = good || test -e $0.repaired || exit 9\n"
                                          "echo {} >$2/metrics.json\n")
                                   .string();
    const auto row = [&](const char* name) {
      return fmt::format("[sweep.row {0}]\nkind = command\ncommand = sh {1} {0} {{run}}\n", name, script);
    };
    std::vector<std::string> all = words;
    all.push_back("--sweep.dir=" + (c.folder() / "sweep").string());
    sweep.file = c.read(kSmallRows + row("bad") + row("good"), all);
    sweep.rows = rows_of(sweep.file);
    sweep.chosen = chosen_rows(sweep.rows, sweep.file.sweep.only);
  }
  /// Returns the exit code; the output goes into `said`.
  int act(int (*action)(const Sweep&)) {
    int code = -1;
    said = printed_to(1, [&] { code = action(sweep); });
    return code;
  }
  RowStatus status(std::size_t row) const { return SweepFolder(sweep.file).status(sweep.rows.at(row)); }

  SweepCase c;
  Sweep sweep;
  std::string said;
};

RowStatus status_of(RowState state, int code) {
  RowStatus status;
  status.state = state, status.code = code;
  return status;
}

}  // namespace

TEST_CASE("A sweep's exit code is that of the first row that is not settled") {
  CHECK(exit_code_of({}) == 0);
  CHECK(exit_code_of({status_of(RowState::done, 0), status_of(RowState::does_not_fit, 2),
                      status_of(RowState::skipped, 0)}) == 0);
  CHECK(exit_code_of({status_of(RowState::done, 0), status_of(RowState::failed, 9), status_of(RowState::failed, 5)}) ==
        9);
  CHECK(exit_code_of({status_of(RowState::pending, 0), status_of(RowState::failed, 9)}) == 75);
}

TEST_CASE("Rows run one after the other; one that fails does not keep the next from it, and runs again by retry only") {
  RunCase c;
  CHECK(c.act(run_here) == 9);
  CHECK_THAT(c.said, Contains("2 of 2 rows to run") && Contains("1 of 2 rows done"));
  CHECK_THAT(c.said, Catch::EndsWith("\n1 row failed. Use --sweep.action=retry to run it again.\n"));
  CHECK((c.status(0).state == RowState::failed && c.status(0).code == 9 && c.status(1).state == RowState::done));
  CHECK(c.act(run_here) == 9);
  CHECK_THAT(c.said, Contains("0 of 2 rows to run"));
  c.c.folder().write("row.sh.repaired", "");
  CHECK(c.act(retry_rows) == 0);
  CHECK_THAT(c.said, Contains("1 of 2 rows to run") && Contains("2 of 2 rows done") && !Contains("failed."));
  CHECK((c.status(0).attempts == 2 && c.status(1).attempts == 1));
  CHECK(c.act(retry_rows) == 0);
  CHECK_THAT(c.said, Contains("nothing to try again: no row has failed"));
}

TEST_CASE("Repeats go round: every row once before one runs twice") {
  RunCase c({"--sweep.repeat=2"});
  c.c.folder().write("row.sh.repaired", "");
  CHECK(c.act(run_here) == 0);
  CHECK((c.status(0).repeats == 2 && c.status(1).repeats == 2));
  const auto at = [&](const char* row, std::size_t from) { return c.said.find(fmt::format("\n{} ", row), from); };
  const std::size_t first = at("good", 0);
  CHECK((at("bad", 0) < first && first < at("bad", at("bad", 0) + 1)));
}

TEST_CASE("What was not started cannot be tried again, and a job runs one row") {
  RunCase c;
  CHECK_THAT(message_of<UsageError>([&] { retry_rows(c.sweep); }), Contains("is not a sweep that was started"));
  CHECK_THAT(message_of<UsageError>([&] { run_in_job(c.sweep); }), Contains("sweep.action = row runs one row"));
  CHECK_FALSE(std::filesystem::exists(c.c.folder() / "sweep"));
}
