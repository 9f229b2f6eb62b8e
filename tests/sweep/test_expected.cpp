// sweep.cluster and sweep.order: the time of rows before they run.
#include "printed_to.hpp"
#include "simulate/simulated_run.hpp"
#include "sweep/expected.hpp"
#include "sweep/sweep_case.hpp"
#include "tessera/base/format.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/simulate/predict.hpp"
#include "tessera/sweep/sweep.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

constexpr const char* kPricedRows =
    "[sweep.row long]\ntrain.steps = 500\n[sweep.row tool]\nkind = command\ncommand = measure {run}\n"
    "[sweep.row epochs]\ntrain.epochs = 2\n[sweep.row half]\nprecision.compute = fp16\n"
    "[sweep.row short]\nranks = 2\ntrain.tokens = 500\n";

struct PricedCase {
  PricedCase() { c.folder().write("machine.ini", cluster_text(testing::machine_of({}), "# a machine of rates\n")); }
  std::string cluster() const { return (c.folder() / "machine.ini").string(); }
  std::string printed(std::vector<std::string> words) const {
    words.push_back("--sweep.dir=" + (c.folder() / "sweep").string());
    const auto file = c.folder().write("demo.ini", std::string(kSmallRows) + kPricedRows);
    return printed_to(1, [&] { CHECK(run_sweep(file, read_arguments(words).settings) == 0); });
  }
  SweepCase c;
};

}  // namespace

TEST_CASE("A row's expected time is its steps at the predicted time, and a row without one says why") {
  const PricedCase c;
  const std::vector<SweepRow> rows = c.c.rows(kPricedRows);
  const ExpectedTimes times = expected_times(rows, c.cluster());
  REQUIRE(times.size() == 5);
  const Cluster cluster = read_cluster(c.cluster());
  const ResolvedRun run(on_cluster(rows[0].options, cluster, 1), {Purpose::sweep, 1, {}});
  const double step = predict(run.planned.schedule, run.planned.plan, run.options, cluster).step_seconds;
  CHECK(times.at("long").seconds() == Approx(500 * step));
  CHECK(times.at("short").steps == 8);  // of 2 x 2 x 16 tokens
  CHECK_THAT(times.at("tool").missing, Contains("another program"));
  CHECK_THAT(times.at("epochs").missing, Contains("train.epochs"));
  CHECK_THAT(times.at("half").missing, Contains("fp16") && Contains("machine.ini"));
  SweepOptions sweep;
  sweep.repeat = 3, sweep.cluster = c.cluster();
  const std::string text = expected_text(times, rows, sweep);
  const double all = 3 * (times.at("long").seconds() + times.at("short").seconds());
  CHECK_THAT(text, Contains("in all " + format_seconds(all) + " for 3 runs of each row, without 3 rows"));
  CHECK_THAT(expected_times(c.c.rows("[sweep.row a]\nrun.device = cuda\n"), c.cluster()).at("a").missing,
             Contains("has the prices of cpu"));
}

TEST_CASE("sweep.order = fastest puts the shortest row first and rows without a price last") {
  const PricedCase c;
  std::vector<SweepRow> rows = c.c.rows(kPricedRows);
  sort_by_time(rows, expected_times(rows, c.cluster()));
  CHECK(names_of(rows) == std::vector<std::string>{"short", "long", "tool", "epochs", "half"});
  const std::string text = c.printed({"--sweep.cluster=" + c.cluster(), "--sweep.order=fastest"});
  CHECK_THAT(text, Catch::StartsWith("expected at the prices of " + c.cluster()));
  CHECK(text.find("\n# short\n") < text.find("\n# long\n"));
  const std::string plain = c.printed({"--sweep.cluster=" + c.cluster()});
  CHECK(plain.find("\n# long\n") < plain.find("\n# short\n"));
  CHECK_THAT(plain, Contains("in all "));
  CHECK_FALSE(c.printed({}).find("in all ") < std::string::npos);
  const auto file = c.c.folder() / "demo.ini";
  CHECK_THAT(message_of<UsageError>([&] { run_sweep(file, read_arguments({"--sweep.order=fastest"}).settings); }),
             Contains("Give sweep.cluster"));
}
