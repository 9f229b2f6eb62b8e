#include "tessera/io/metrics_file.hpp"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <future>

#include "io/support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/io/hdf5_data.hpp"
#include "tessera/io/metrics_history.hpp"

using namespace tessera;
using namespace tessera::test;

/// LeakSanitizer asks for it: HDF5 1.10.8 loses names of a file whose closing fails, as on the full disk below.
extern "C" const char* __lsan_default_suppressions();  // NOLINT: the name is the sanitizer's
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5_serial\n"; }

namespace {

MetricsLayout layout() {
  MetricsLayout layout;
  layout.step_times = {"forward", "backward"};
  layout.memory = {{"parameters", {100, 200, 300}}, {"gradients", {10, 20, 30}}};
  // More attributes than a compact object header takes, and one that is long.
  for (int i = 0; i < 120; ++i)
    layout.config.emplace_back("section.option" + std::to_string(i), "value " + std::to_string(i));
  layout.config.emplace_back("data.long", std::string(70000, 'z'));
  layout.provenance = {{"version", "0.1.0"}, {"hosts", "node1 x2"}};
  layout.flush_after = std::chrono::hours(24);  // tests decide when rows reach the file
  return layout;
}

/// The row that read_metrics.py expects.
StepRow row(std::int64_t step) {
  const auto s = static_cast<double>(step);
  StepRow row{step, step % 3 == 0, 10.0 / (s + 1), s, 1e-3 * s, 0.5, 1.7e9 + s, 1000 + s, {0.25 * s, 0.5 * s}, {}};
  for (std::size_t k = 0; k < row.communication.size(); ++k) {
    const auto kind = static_cast<std::int64_t>(k);
    row.communication[k] = {kind + 1, step * (kind + 1), 0.001 * static_cast<double>(kind)};
  }
  return row;
}

int check_with_h5py(const std::filesystem::path& path, int steps, int evals, const std::string& how) {
  return run_python("read_metrics.py",
                    "'" + path.string() + "' " + std::to_string(steps) + " " + std::to_string(evals) + " " + how);
}

/// Writes `steps` rows and everything else, waits until they are in the file.
void fill(MetricsFile& metrics, int steps) {
  for (int i = 0; i < steps; ++i) metrics.append_step(row(i));
  for (int i = 0; i < 3; ++i) metrics.append_eval(100 * i, 2.5 * i);
  metrics.set_measured_memory("gradients", {11, 22, 33});
  metrics.set_seconds_to_first_step(1.75);
  metrics.flush();
}

/// A process that does this, then dies by SIGKILL when `then` has been seen to be done.
template <class F>
void in_a_process_that_is_killed(F&& f) {
  int to_parent[2];
  REQUIRE(::pipe(to_parent) == 0);
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    try {
      f([&] {
        for (char ready = 'r'; ::write(to_parent[1], &ready, 1) == 1;) ::pause();
      });
    } catch (const std::exception& error) {
      std::fprintf(stderr, "writer: %s\n", error.what());
    }
    ::_exit(1);
  }
  ::close(to_parent[1]);
  char ready = 0;
  CHECK(::read(to_parent[0], &ready, 1) == 1);
  ::close(to_parent[0]);
  ::kill(writer, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(writer, &status, 0) == writer);
  REQUIRE(WIFSIGNALED(status));
}

/// Steps of all metrics files, one after the other, and what else must fit them.
std::vector<std::int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<std::int64_t> all;
  for (const std::int64_t number : metrics_files(folder)) {
    const Hdf5File file = Hdf5File::open(metrics_path(folder, number));  // closed: no SWMR needed
    const auto steps = hdf5_read<std::int64_t>(file.id(), "steps/step");
    const auto losses = hdf5_read<double>(file.id(), "steps/loss");
    const auto forward = hdf5_read<double>(file.id(), "steps/time/forward");
    const auto bytes = hdf5_read<std::int64_t>(file.id(), "comm/broadcast/bytes");
    REQUIRE(losses.size() == steps.size());
    REQUIRE(forward.size() == steps.size());
    REQUIRE(bytes.size() == steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      REQUIRE(losses[i] == row(steps[i]).loss);
      REQUIRE(forward[i] == row(steps[i]).times[0]);
      REQUIRE(bytes[i] == row(steps[i]).communication[3].bytes);
      all.push_back(steps[i]);
    }
  }
  return all;
}

std::vector<std::int64_t> first_steps(std::int64_t count) {
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 0; i < count; ++i) steps.push_back(i);
  return steps;
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
    CHECK_THROWS_AS(metrics.append_step(row(0)), InternalError);
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
  int to_parent[2];
  REQUIRE(::pipe(to_parent) == 0);
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {  // the run: leaves by SIGKILL only
    try {
      IoThread io;
      MetricsLayout with = layout();
      MetricsFile metrics(io, folder.path(), with);
      fill(metrics, 1500);
      for (char ready = 'r'; ::write(to_parent[1], &ready, 1) == 1;) ::pause();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "writer: %s\n", error.what());
    }
    ::_exit(1);
  }
  ::close(to_parent[1]);
  char ready = 0;
  CHECK(::read(to_parent[0], &ready, 1) == 1);
  ::close(to_parent[0]);
  CHECK(check_with_h5py(folder / "metrics.h5", 1500, 3, "alive") == 0);
  ::kill(writer, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(writer, &status, 0) == writer);
  REQUIRE(WIFSIGNALED(status));
  CHECK(check_with_h5py(folder / "metrics.h5", 1500, 3, "killed") == 0);
  IoThread io;
  CHECK(MetricsFile(io, folder.path(), layout()).path() == folder / "metrics.1.h5");
}

TEST_CASE("a reader follows rows as they are appended, and a kill in the middle loses only what was not flushed") {
  const TemporaryFolder folder;
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    try {
      IoThread io;
      MetricsLayout with = layout();
      with.flush_rows = 3;
      MetricsFile metrics(io, folder.path(), with);
      for (std::int64_t i = 0; i < 10'000'000; ++i) metrics.append_step(row(i));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "writer: %s\n", error.what());
    }
    ::_exit(1);
  }
  CHECK(check_with_h5py(folder / "metrics.h5", 2000, 0, "growing") == 0);  // returns once 2000 rows were seen
  ::kill(writer, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(writer, &status, 0) == writer);
  REQUIRE(WIFSIGNALED(status));
  CHECK(check_with_h5py(folder / "metrics.h5", 2000, 0, "cut") == 0);
}

TEST_CASE("a file that cannot be made, and wrong rows, are errors") {
  const TemporaryFolder folder;
  IoThread io;
  CHECK_THROWS_AS(MetricsFile(io, folder / "missing", layout()), IoError);
  MetricsFile metrics(io, folder.path(), layout());
  StepRow wrong = row(0);
  wrong.times.pop_back();
  CHECK_THROWS_AS(metrics.append_step(wrong), InternalError);
  CHECK_THROWS_AS(metrics.set_measured_memory("parameters", {1}), InternalError);
  CHECK_THROWS_AS(metrics.set_measured_memory("weights", {1, 2, 3}), InternalError);
}

TEST_CASE("a full disk surfaces at the next call and at close, and does not end the process") {
  const TemporaryFolder folder;
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    int code = 1;
    try {
      ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit then fails as on a full disk
      IoThread io;
      MetricsFile metrics(io, folder.path(), layout());
      const auto size = std::filesystem::file_size(metrics.path());
      const rlimit limit{size, size};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      int errors = 0;
      const auto attempt = [&](auto&& call) {
        try {
          call();
        } catch (const IoError& error) {
          if (std::string(error.what()).find("metrics.h5") != std::string::npos) ++errors;
        }
      };
      for (int i = 0; i < 5000; ++i) attempt([&] { metrics.append_step(row(i)); });
      attempt([&] { metrics.flush(); });
      // By now the error has been seen; what comes later is dropped.
      code = errors == 1 ? 0 : 2;
      attempt([&] { metrics.append_step(row(0)); });
      attempt([&] { metrics.close(); });
      if (errors != 1) code = 3;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "writer: %s\n", error.what());
    }
    std::exit(code);  // HDF5's own clean-up at exit has to survive, too
  }
  int status = 0;
  REQUIRE(::waitpid(writer, &status, 0) == writer);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("rows reach the file by themselves after a while") {
  const TemporaryFolder folder;
  IoThread io;
  MetricsLayout with = layout();
  with.flush_after = std::chrono::milliseconds(1);
  MetricsFile metrics(io, folder.path(), with);
  for (int i = 0; i < 5; ++i) metrics.append_step(row(i));
  CHECK(check_with_h5py(metrics.path(), 5, 0, "growing") == 0);  // waits for them
}

TEST_CASE("durable rows outlast a kill, and a run that goes on from one of them repeats none") {
  const bool swmr = GENERATE(true, false);
  const TemporaryFolder folder;
  in_a_process_that_is_killed([&](const auto& be_killed) {
    IoThread io;
    MetricsLayout with = layout();
    with.swmr = swmr;
    MetricsFile metrics(io, folder.path(), with);
    for (std::int64_t i = 0; i < 1500; ++i) {
      metrics.append_step(row(i));
      if (i == 1100) metrics.make_durable(i);
    }
    metrics.append_eval(1000, 2.5);
    metrics.append_eval(1300, 2.0);
    metrics.flush();
    be_killed();
  });
  IoThread io;
  MetricsLayout with = layout();
  with.swmr = swmr;
  const auto go_on = [&](std::int64_t step) {
    CHECK(io.run([&] { return end_history_after(folder.path(), step, false); }).empty());
    CHECK(steps_in(folder.path()) == first_steps(step + 1));
  };
  go_on(1100);
  if (swmr) {
    const Hdf5File file = Hdf5File::open(folder / "metrics.h5");
    CHECK(hdf5_read<std::int64_t>(file.id(), "eval/step") == std::vector<std::int64_t>{1000});
    const Hdf5Group config = hdf5_open_group(file.id(), "config");
    CHECK(hdf5_read_attribute<std::string>(config.id(), "section.option119") == "value 119");
    CHECK(hdf5_read_attribute<std::string>(config.id(), "data.long").size() == 70000);
    CHECK(hdf5_read<std::int64_t>(file.id(), "memory/gradients/planned") == std::vector<std::int64_t>{10, 20, 30});
  }
  {
    MetricsFile metrics(io, folder.path(), with);
    for (std::int64_t i = 1101; i < 1200; ++i) metrics.append_step(row(i));
  }
  CHECK(steps_in(folder.path()) == first_steps(1200));
  go_on(1150);  // from the middle of the second file
  go_on(40);    // the second file has none left
  CHECK(metrics_files(folder.path()) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("a file that loses rows by going back is kept under another name") {
  const TemporaryFolder folder;
  IoThread io;
  {
    MetricsFile metrics(io, folder.path(), layout());
    for (std::int64_t i = 0; i < 20; ++i) metrics.append_step(row(i));
  }
  const auto end_after = [&](std::int64_t step) {
    CHECK(io.run([&] { return end_history_after(folder.path(), step, true); }).empty());
  };
  end_after(19);
  CHECK_FALSE(std::filesystem::exists(folder / "metrics.h5.before-step-20"));
  end_after(9);
  end_after(9);
  CHECK(steps_in(folder.path()) == first_steps(10));
  const Hdf5File before = Hdf5File::open(folder / "metrics.h5.before-step-10");
  CHECK(hdf5_read<std::int64_t>(before.id(), "steps/step").size() == 20);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("a metrics file that cannot be read is named, and others are put right all the same") {
  const TemporaryFolder folder;
  IoThread io;
  write_file(folder / "metrics.h5", "not HDF5");
  {
    MetricsFile metrics(io, folder.path(), layout());
    fill(metrics, 20);
    CHECK(metrics.path() == folder / "metrics.1.h5");
  }
  const auto said = io.run([&] { return end_history_after(folder.path(), 4, false); });
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("metrics.h5") != std::string::npos);
  CHECK(hdf5_read<std::int64_t>(Hdf5File::open(folder / "metrics.1.h5").id(), "steps/step").size() == 5);
}

TEST_CASE("a file that has failed is not waited for, and what readers find stays whole") {
  const TemporaryFolder folder;
  IoThread io;
  MetricsLayout with = layout();
  with.swmr = false;
  MetricsFile metrics(io, folder.path(), with);
  fill(metrics, 20);
  metrics.make_durable(19);
  CHECK_THROWS_AS(metrics.make_durable(20), InternalError);  // its row was not appended
  std::filesystem::create_directory(folder / "metrics.h5.copy.tmp");
  metrics.append_step(row(20));
  metrics.make_durable(20);  // in vain
  std::promise<void> go_on;
  io.post(IoPriority::rows, [&] { go_on.get_future().wait(); });
  metrics.make_durable(21);
  go_on.set_value();
  CHECK_THROWS_AS(metrics.append_step(row(21)), IoError);
  metrics.close();
  CHECK(steps_in(folder.path()) == first_steps(20));
}
