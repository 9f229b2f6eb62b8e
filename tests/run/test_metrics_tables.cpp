#include "metrics_case.hpp"
#include "run/metrics_tables.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

std::vector<double> numbers(const Hdf5File& file, const std::string& name) {
  return hdf5_read<double>(file.id(), name);
}

std::vector<std::int64_t> integers(const Hdf5File& file, const std::string& name) {
  return hdf5_read<std::int64_t>(file.id(), name);
}

}  // namespace

TEST_CASE("every value of every kind of row is in its own dataset") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.h5";
  {
    MetricsLayout with = layout();
    with.eval_sets = {"near", "far"};
    with.layers = {"wte", "h.0"};
    MetricsTables tables(path, with);
    StepRow step{3, true, false, 1, 2, 3, 4, 5, 6, {7, 8}, {}};
    step.communication[2] = {9, 10, 11};
    RankRow ranks = report(30);
    ranks.layer_norms = {21, 22};
    tables.write({.steps = {step},
                  .evals = {{20, {2.5, 3.5}}, {40, {1.5, 4.5}}},
                  .checkpoints = {{100, 12, 13, 14, 15}},
                  .devices = {{16, 17, 18, 19, 20}},
                  .ranks = {ranks}});
    tables.close();
  }
  const Hdf5File file = Hdf5File::open(path);
  using Integers = std::vector<std::int64_t>;
  using Numbers = std::vector<double>;
  CHECK(integers(file, "steps/step") == Integers{3});
  CHECK(integers(file, "steps/skipped") == Integers{1});
  CHECK(integers(file, "steps/timed") == Integers{0});
  double value = 1;
  for (const char* name :
       {"loss", "grad_norm", "lr", "seconds", "unix_time", "tokens_per_second", "time/forward", "time/backward"}) {
    INFO(name);
    CHECK(numbers(file, std::string("steps/") + name) == Numbers{value++});
  }
  CHECK(integers(file, "comm/all_reduce/calls") == Integers{9});
  CHECK(integers(file, "comm/all_reduce/bytes") == Integers{10});
  CHECK(numbers(file, "comm/all_reduce/seconds") == Numbers{11});
  CHECK(integers(file, "comm/all_gather/calls") == Integers{0});
  CHECK(integers(file, "eval/step") == Integers{20, 40});
  CHECK(numbers(file, "eval/loss") == Numbers{2.5, 1.5});
  CHECK(integers(file, "eval/far/step") == Integers{20, 40});
  CHECK(numbers(file, "eval/near/loss") == Numbers{2.5, 1.5});
  CHECK(numbers(file, "eval/far/loss") == Numbers{3.5, 4.5});
  CHECK(integers(file, "checkpoints/step") == Integers{100});
  CHECK(integers(file, "checkpoints/bytes") == Integers{12});
  CHECK(numbers(file, "checkpoints/blocked_seconds") == Numbers{13});
  CHECK(numbers(file, "checkpoints/waited_seconds") == Numbers{14});
  CHECK(numbers(file, "checkpoints/background_seconds") == Numbers{15});
  CHECK(integers(file, "device/step") == Integers{16});
  CHECK(numbers(file, "device/utilization") == Numbers{17});
  CHECK(integers(file, "device/memory_used") == Integers{18});
  CHECK(numbers(file, "device/power") == Numbers{19});
  CHECK(numbers(file, "device/energy") == Numbers{20});
  CHECK(integers(file, "ranks/report") == Integers{30});
  CHECK(integers(file, "layers/step") == Integers{30});
  CHECK(numbers(file, "layers/grad_norm") == Numbers{21, 22});
  CHECK(Hdf5Array<double>::open(file.id(), "layers/grad_norm").shape() == Integers{1, 2});
  CHECK(hdf5_read_attribute<std::string>(hdf5_open_group(file.id(), "layers").id(), "names") == "wte,h.0");
}

TEST_CASE("memory is -1 until it is measured, and a number of the provenance what was set last") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.h5";
  {
    MetricsTables tables(path, layout());
    tables.write(
        {.process_memory = {11, 22, 33}, .numbers = {{"load_average_start", 0.5}, {"load_average_start", 0.75}}});
    tables.write({});
    tables.close();
    MetricsTables(folder / "unmeasured.h5", layout()).close();
  }
  const Hdf5File file = Hdf5File::open(path), unmeasured = Hdf5File::open(folder / "unmeasured.h5");
  CHECK(integers(file, "memory/parameters/planned") == std::vector<std::int64_t>{100, 200, 300});
  CHECK(integers(file, "memory/process/planned") == std::vector<std::int64_t>{10, 20, 30});
  CHECK(integers(file, "memory/process/measured") == std::vector<std::int64_t>{11, 22, 33});
  CHECK(integers(unmeasured, "memory/process/measured") == std::vector<std::int64_t>{-1, -1, -1});
  const Hdf5Group provenance = hdf5_open_group(file.id(), "provenance");
  CHECK(hdf5_read_attribute<double>(provenance.id(), "load_average_start") == 0.75);
  CHECK(std::isnan(hdf5_read_attribute<double>(provenance.id(), "seconds_to_first_step")));
}

TEST_CASE("a file without SWMR is complete whenever it was handed over: a copy of it reads as it is") {
  const TemporaryFolder folder;
  MetricsLayout plain = layout();
  plain.swmr = plain.device = false;
  MetricsTables tables(folder / "metrics.h5.tmp", plain);
  tables.write({.steps = {row(1), row(2)}});
  tables.flush_file();
  std::filesystem::copy_file(folder / "metrics.h5.tmp", folder / "metrics.h5");
  const Hdf5File copy = Hdf5File::open(folder / "metrics.h5");
  CHECK(integers(copy, "steps/step") == std::vector<std::int64_t>{1, 2});
  CHECK(hdf5_list(copy.id()) == std::vector<std::string>{"checkpoints", "comm", "config", "eval", "memory", "model",
                                                         "overlap", "provenance", "ranks", "schedule", "steps"});
}
