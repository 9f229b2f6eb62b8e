#include "metrics_case.hpp"
#include "run/metrics_tables.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Writes reports, closes the file and opens it again.
Hdf5File written(const std::filesystem::path& path, const MetricsLayout& layout, const std::vector<RankRow>& reports) {
  {
    Hdf5File file = Hdf5File::create(path);
    {
      RowTable<RankRow> tables = create_ranks(file.id(), layout);
      tables.append({});
      tables.flush();
      for (const RankRow& report : reports) tables.append({report});
      tables.flush();
    }
    file.close();
  }
  return Hdf5File::open(path);
}

/// Reads a dataset of [report, rank], row by row.
template <class T>
std::vector<T> values_of(const Hdf5File& file, const std::string& name, std::vector<std::int64_t> shape) {
  const auto array = Hdf5Array<T>::open(file.id(), "ranks/" + name);
  CHECK(array.shape() == shape);
  std::vector<T> values(static_cast<std::size_t>(array.elements()));
  array.read(0, values);
  return values;
}

}  // namespace

TEST_CASE("each value of each rank is in its own dataset, a row a report") {
  const TemporaryFolder folder;
  const std::vector<RankRow> reports{report(10), report(20)};
  const Hdf5File file = written(folder / "ranks.h5", layout(), reports);
  using Value = std::function<double(const RankValues&)>;
  const auto check = [&]<class T>(const std::string& name, T, const Value& value) {
    INFO(name);
    std::vector<T> expected;
    for (const RankRow& row : reports)
      for (const RankValues& rank : row.ranks) expected.push_back(static_cast<T>(value(rank)));
    CHECK(values_of<T>(file, name, {2, 3}) == expected);
  };
  check("time/forward", 0.0, [](const RankValues& r) { return r.times[0]; });
  check("time/backward", 0.0, [](const RankValues& r) { return r.times[1]; });
  for (std::size_t k = 0; k < kCollectiveNames.size(); ++k) {
    const std::string kind = std::string("comm/") + kCollectiveNames[k];
    check(kind + "/calls", std::int64_t{}, [k](const RankValues& r) { return r.communication[k].calls; });
    check(kind + "/bytes", std::int64_t{}, [k](const RankValues& r) { return r.communication[k].bytes; });
    check(kind + "/seconds", 0.0, [k](const RankValues& r) { return r.communication[k].seconds; });
  }
  check("memory/process/measured", std::int64_t{}, [](const RankValues& r) { return r.process; });
  check("memory/peak", 0.0, [](const RankValues& r) { return r.memory_peak; });
  check("memory/average", 0.0, [](const RankValues& r) { return r.memory_average; });
  check("device/memory_used", std::int64_t{}, [](const RankValues& r) { return r.device.memory_used; });
  check("device/utilization", 0.0, [](const RankValues& r) { return r.device.utilization; });
  check("device/power", 0.0, [](const RankValues& r) { return r.device.power; });
  check("device/energy", 0.0, [](const RankValues& r) { return r.device.energy; });
  CHECK(hdf5_read<std::int64_t>(file.id(), "ranks/report") == std::vector<std::int64_t>{10, 20});
  CHECK(hdf5_read<std::int64_t>(file.id(), "ranks/steps") == std::vector<std::int64_t>{7, 7});
  CHECK(hdf5_read<std::int64_t>(file.id(), "ranks/timed_steps") == std::vector<std::int64_t>{2, 2});
  CHECK(hdf5_read<std::int64_t>(file.id(), "ranks/straggler") == std::vector<std::int64_t>{1, -1});
  CHECK(hdf5_read<double>(file.id(), "ranks/behind_seconds") == std::vector<double>{5, 10});
}

TEST_CASE("without a monitor there is no device, and without reports there are no rows") {
  const TemporaryFolder folder;
  MetricsLayout cores = layout();
  cores.device = false;
  const Hdf5File file = written(folder / "ranks.h5", cores, {});
  CHECK_FALSE(hdf5_has(hdf5_open_group(file.id(), "ranks").id(), "device"));
  CHECK(values_of<double>(file, "memory/peak", {0, 3}).empty());
  CHECK(hdf5_read<std::int64_t>(file.id(), "ranks/report").empty());
}
