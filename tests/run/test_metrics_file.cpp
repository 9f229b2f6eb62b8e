#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "child.hpp"
#include "metrics_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/run/metrics_file.hpp"
#include "tessera/run/metrics_history.hpp"

using namespace tessera;
using namespace tessera::test;

/// LeakSanitizer asks for it: HDF5 1.10.8 loses names of a file whose closing fails, as on the full disk below.
extern "C" const char* __lsan_default_suppressions();  // NOLINT: the name is the sanitizer's
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5_serial\n"; }

namespace {

int check_with_h5py(const std::filesystem::path& path, int steps, int evals, const std::string& how) {
  return run_python("run/read_metrics.py",
                    "'" + path.string() + "' " + std::to_string(steps) + " " + std::to_string(evals) + " " + how);
}

/// From now on a write beyond so many bytes of a file fails as on a full disk.
void allow_no_more_than(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace

TEST_CASE("a metrics file that was closed reads as any HDF5 file") {
  const TemporaryFolder folder;
  for (const bool swmr : {true, false}) {
    IoThread io;
    MetricsLayout with = layout();
    with.swmr = swmr;
    with.flush_rows = 7;
    MetricsFile metrics(io, folder.path(), with);
    fill(metrics, 2100);
    metrics.close();
    metrics.close();
    CHECK_THROWS_AS(metrics.append(kSteps, row(0)), InternalError);
    CHECK(check_with_h5py(metrics.path(), 2100, 3, "closed") == 0);
    const Hdf5File file = Hdf5File::open(metrics.path());
    CHECK(hdf5_read<std::int64_t>(file.id(), "steps/step").size() == 2100);
  }
}

TEST_CASE("each start of a run takes the next free name") {
  const TemporaryFolder folder;
  IoThread io;
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) names.push_back(MetricsFile(io, folder.path(), layout()).path().filename().string());
  CHECK(names == std::vector<std::string>{"metrics.h5", "metrics.1.h5", "metrics.2.h5"});
}

TEST_CASE("a metrics file can be read while it is written and after its writer was killed") {
  const TemporaryFolder folder;
  Child writer([&](const auto& wait_to_be_killed) {
    IoThread io;
    MetricsFile metrics(io, folder.path(), layout());
    fill(metrics, 1500);
    wait_to_be_killed();
  });
  writer.wait_until_ready();
  CHECK(check_with_h5py(folder / "metrics.h5", 1500, 3, "alive") == 0);
  writer.kill();
  CHECK(check_with_h5py(folder / "metrics.h5", 1500, 3, "killed") == 0);
  IoThread io;
  CHECK(MetricsFile(io, folder.path(), layout()).path() == folder / "metrics.1.h5");
}

TEST_CASE("a reader follows rows as they are appended, and a kill in the middle loses only what was not flushed") {
  const TemporaryFolder folder;
  Child writer([&](const auto&) {
    IoThread io;
    MetricsLayout with = layout();
    with.flush_rows = 3;
    MetricsFile metrics(io, folder.path(), with);
    for (std::int64_t i = 0; i < 10'000'000; ++i) metrics.append(kSteps, row(i));
  });
  CHECK(check_with_h5py(folder / "metrics.h5", 2000, 0, "growing") == 0);  // returns once 2000 rows were seen
  writer.kill();
  CHECK(check_with_h5py(folder / "metrics.h5", 2000, 0, "cut") == 0);
}

TEST_CASE("a file that cannot be made, and wrong rows, are errors") {
  const TemporaryFolder folder;
  IoThread io;
  CHECK_THROWS_AS(MetricsFile(io, folder / "missing", layout()), IoError);
  MetricsFile metrics(io, folder.path(), layout());
  MetricsRow short_row = row(0), long_row = report(0);
  short_row.values.pop_back();
  long_row.values.push_back(0);
  CHECK_THROWS_AS(metrics.append(kSteps, short_row), InternalError);
  CHECK_THROWS_AS(metrics.append(kRanks, long_row), InternalError);
  CHECK_THROWS_AS(metrics.set_number("version", 1), InternalError);
  CHECK_THROWS_AS(metrics.set_process_memory({1}), InternalError);
}

TEST_CASE("a full disk surfaces at the next call and at close, and does not end the process") {
  const TemporaryFolder folder;
  Child writer([&](const auto&) {
    int code = 0;
    {
      IoThread io;
      MetricsFile metrics(io, folder.path(), layout());
      allow_no_more_than(std::filesystem::file_size(metrics.path()));
      int errors = 0;
      const auto attempt = [&](auto&& call) {
        try {
          call();
        } catch (const IoError& error) {
          if (std::string(error.what()).find("metrics.h5") != std::string::npos) ++errors;
        }
      };
      for (int i = 0; i < 5000; ++i) attempt([&] { metrics.append(kSteps, row(i)); });
      attempt([&] { metrics.flush(); });
      // By now the error has been seen; later rows are dropped.
      if (errors != 1) code = 2;
      attempt([&] { metrics.append(kSteps, row(0)); });
      attempt([&] { metrics.close(); });
      if (errors != 1) code = 3;
    }
    std::exit(code);  // HDF5's own clean-up at exit has to survive, too
  });
  CHECK(writer.exit_code() == 0);
}

TEST_CASE("values that a full disk did not take are unknown, not 0, and rows without a step are dropped") {
  const auto room = static_cast<rlim_t>(GENERATE(0, 10'000, 40'000, 160'000));  // for some of the columns
  const TemporaryFolder folder;
  const auto path = folder / "metrics.h5";
  Child writer([&](const auto&) {
    try {
      IoThread io;
      MetricsFile metrics(io, folder.path(), layout());
      allow_no_more_than(std::filesystem::file_size(path) + room);
      for (int i = 1; i <= 3; ++i) metrics.append(kSteps, row(i));
      metrics.flush();
    } catch (const IoError&) {
      std::exit(0);
    }
  });
  REQUIRE(writer.exit_code() == 0);
  std::filesystem::resize_file(path, 1 << 20);  // as HDF5 does on a full disk; it takes no space
  const auto steps = [&] {
    const Hdf5File file = Hdf5File::open(path, true);
    const auto read = [&]<class T>(const std::string& name, std::size_t column, T unknown) {
      auto values = hdf5_read<T>(file.id(), name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto written = static_cast<T>(row(static_cast<std::int64_t>(i) + 1).values[column]);
        CHECK((values[i] == written || values[i] == unknown || std::isnan(static_cast<double>(values[i]))));
      }
      return values;
    };
    read("steps/loss", 3, std::nan(""));
    read("steps/time/backward", 10, std::nan(""));
    read("comm/exchange/bytes", 24, std::int64_t{-1});
    return read("steps/step", 0, std::int64_t{-1});
  };
  CHECK(steps().size() <= 3);
  IoThread io;
  CHECK(io.run([&] { return end_history_after(folder.path(), 100); }).empty());
  CHECK(std::ranges::count(steps(), -1) == 0);
}

TEST_CASE("rows reach the file by themselves after a while") {
  const TemporaryFolder folder;
  IoThread io;
  MetricsLayout with = layout();
  with.flush_after = std::chrono::milliseconds(1);
  MetricsFile metrics(io, folder.path(), with);
  for (int i = 0; i < 5; ++i) metrics.append(kSteps, row(i));
  CHECK(check_with_h5py(metrics.path(), 5, 0, "growing") == 0);  // waits for them
}
