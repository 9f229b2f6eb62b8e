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

TEST_CASE("every value of a row is in its own dataset: whole numbers, others, several at once") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.h5";
  {
    MetricsLayout with = layout();
    with.tables = {{{"steps/step", ColumnKind::integer}, {"steps/time/forward"}, {"comm/all_gather/seconds"}},
                   {{"ranks/memory/peak", ColumnKind::real, 2}, {"ranks/report", ColumnKind::integer}},
                   {{"samples/step", ColumnKind::integer}, {"samples/text", ColumnKind::text, 4}},
                   {}};
    with.attributes.push_back({"ranks", {{"names", "a,b"}}});
    MetricsTables tables(path, with);
    tables.write({});
    tables.write({.tables = {{{{3, 0.5, 0.25}}, {{4, 1.5, 1.25}}}, {{{7, 8, 30}}}}});
    tables.write({.tables = {{{{5, 2.5, 2.25}}}, {{{9, 10, 40}}}, {{{6}, "longer"}}}});
    tables.close();
  }
  const Hdf5File file = Hdf5File::open(path);
  CHECK(integers(file, "steps/step") == std::vector<std::int64_t>{3, 4, 5});
  CHECK(numbers(file, "steps/time/forward") == std::vector<double>{0.5, 1.5, 2.5});
  CHECK(numbers(file, "comm/all_gather/seconds") == std::vector<double>{0.25, 1.25, 2.25});
  CHECK(numbers(file, "ranks/memory/peak") == std::vector<double>{7, 8, 9, 10});
  CHECK(Hdf5Array<double>::open(file.id(), "ranks/memory/peak").shape() == std::vector<std::int64_t>{2, 2});
  CHECK(integers(file, "ranks/report") == std::vector<std::int64_t>{30, 40});
  CHECK(hdf5_read_attribute<std::string>(hdf5_open_group(file.id(), "ranks").id(), "names") == "a,b");
  CHECK(integers(file, "samples/step") == std::vector<std::int64_t>{6});
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
  plain.swmr = false;
  MetricsTables tables(folder / "metrics.h5.tmp", plain);
  tables.write({.tables = {{row(1), row(2)}}});
  tables.flush_file();
  std::filesystem::copy_file(folder / "metrics.h5.tmp", folder / "metrics.h5");
  const Hdf5File copy = Hdf5File::open(folder / "metrics.h5");
  CHECK(integers(copy, "steps/step") == std::vector<std::int64_t>{1, 2});
  CHECK(hdf5_list(copy.id()) == std::vector<std::string>{"checkpoints", "comm", "config", "eval", "memory", "model",
                                                         "provenance", "ranks", "schedule", "steps"});
}
