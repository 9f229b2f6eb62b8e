#include <future>

#include "child.hpp"
#include "metrics_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/run/metrics_history.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Returns the steps of all metrics files, one after the other, and checks the data that must fit them.
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
    REQUIRE(hdf5_read_strings(file.id(), "schedule") == std::vector{layout().schedule});
    const Hdf5Dataset schedule(H5Dopen2(file.id(), "schedule", H5P_DEFAULT));
    REQUIRE(hdf5_read_attribute<std::string>(schedule.id(), "format") == "a format");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::vector<double> expected = row(steps[i]).values;
      REQUIRE(losses[i] == expected[3]);
      REQUIRE(forward[i] == expected[9]);
      REQUIRE(bytes[i] == static_cast<std::int64_t>(expected[21]));
      all.push_back(steps[i]);
    }
  }
  return all;
}

/// Checks that /ranks has the reports of steps 0, 10, ... `last`, complete.
void check_reports(const Hdf5File& file, std::int64_t last) {
  const Hdf5Group ranks = hdf5_open_group(file.id(), "ranks");
  const auto steps = hdf5_read<std::int64_t>(ranks.id(), "report");
  REQUIRE(static_cast<std::int64_t>(steps.size()) == last / 10 + 1);
  CHECK(steps.back() == last);
  const auto forward = Hdf5Array<double>::open(hdf5_open_group(ranks.id(), "time").id(), "forward");
  const Hdf5Group gather = hdf5_open_group(hdf5_open_group(ranks.id(), "comm").id(), "all_gather");
  const auto bytes = Hdf5Array<std::int64_t>::open(gather.id(), "bytes");
  REQUIRE(forward.shape() == std::vector<std::int64_t>{last / 10 + 1, 3});
  REQUIRE(bytes.shape() == forward.shape());
  std::vector<double> seconds(static_cast<std::size_t>(forward.elements()));
  std::vector<std::int64_t> sent(seconds.size());
  forward.read(0, seconds);
  bytes.read(0, sent);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const std::vector<double> expected = report(steps[i / 3]).values;
    REQUIRE(seconds[i] == expected[5 + i % 3]);
    REQUIRE(sent[i] == static_cast<std::int64_t>(expected[35 + i % 3]));
  }
}

std::vector<std::int64_t> first_steps(std::int64_t count) {
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 0; i < count; ++i) steps.push_back(i);
  return steps;
}

}  // namespace

TEST_CASE("durable rows outlast a kill, and a run that goes on from one of them repeats none") {
  const bool swmr = GENERATE(true, false);
  const TemporaryFolder folder;
  Child writer([&](const auto& wait_to_be_killed) {
    IoThread io;
    MetricsLayout with = layout();
    with.swmr = swmr;
    with.tables[kEvals].push_back({"eval/far/loss"});
    MetricsFile metrics(io, folder.path(), with);
    for (std::int64_t i = 0; i < 1500; ++i) {
      metrics.append(kSteps, row(i));
      if (i % 10 == 0) metrics.append(kRanks, report(i));
      if (i == 1100) metrics.make_durable(i);
    }
    metrics.append(kEvals, {{1000, 2.5, 3.5}});
    metrics.append(kEvals, {{1300, 2.0, 3.0}});
    metrics.flush();
    wait_to_be_killed();
  });
  writer.wait_until_ready();
  writer.kill();
  IoThread io;
  MetricsLayout with = layout();
  with.swmr = swmr;
  const auto go_on = [&](std::int64_t step) {
    CHECK(io.run([&] { return end_history_after(folder.path(), step); }).empty());
    CHECK(steps_in(folder.path()) == first_steps(step + 1));
  };
  go_on(1100);
  if (swmr) {
    const Hdf5File file = Hdf5File::open(folder / "metrics.h5");
    CHECK(hdf5_read<std::int64_t>(file.id(), "eval/step") == std::vector<std::int64_t>{1000});
    CHECK(hdf5_read<double>(file.id(), "eval/far/loss") == std::vector<double>{3.5});
    check_reports(file, 1100);
    CHECK(hdf5_read_attribute<std::int64_t>(hdf5_open_group(file.id(), "model").id(), "parameters") == 1234);
    const Hdf5Group config = hdf5_open_group(file.id(), "config");
    CHECK(hdf5_read_attribute<std::string>(config.id(), "section.option119") == "value 119");
    CHECK(hdf5_read_attribute<std::string>(config.id(), "data.long").size() == 70000);
    CHECK(hdf5_read<std::int64_t>(file.id(), "memory/process/planned") == std::vector<std::int64_t>{10, 20, 30});
  }
  {
    MetricsFile metrics(io, folder.path(), with);
    for (std::int64_t i = 1101; i < 1200; ++i) metrics.append(kSteps, row(i));
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
    for (std::int64_t i = 0; i < 20; ++i) metrics.append(kSteps, row(i));
  }
  const auto end_after = [&](std::int64_t step) {
    CHECK(io.run([&] { return end_history_after(folder.path(), step); }).empty());
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

TEST_CASE("a run that goes back loses the samples of later steps, and keeps the texts of the others") {
  const TemporaryFolder folder;
  IoThread io;
  MetricsLayout with = layout();
  with.tables.push_back({{"samples/step", ColumnKind::integer}, {"samples/text", ColumnKind::text, 8}});
  with.tables.push_back({{"of_a_later_version/step", ColumnKind::integer}});
  {
    MetricsFile metrics(io, folder.path(), with);
    for (std::int64_t i = 0; i < 6; ++i) {
      metrics.append(kSteps, row(i));
      const std::string text = fmt::format("text {}{:x<{}}€", i, "", i);
      metrics.append(with.tables.size() - 2, {{static_cast<double>(i)}, text});
      metrics.append(with.tables.size() - 1, {{static_cast<double>(i)}});
    }
  }
  CHECK(io.run([&] { return end_history_after(folder.path(), 3); }).empty());
  CHECK(steps_in(folder.path()) == first_steps(4));
  const Hdf5File file = Hdf5File::open(folder / "metrics.h5");
  CHECK(hdf5_read<std::int64_t>(file.id(), "samples/step") == first_steps(4));
  CHECK(hdf5_read<std::int64_t>(file.id(), "of_a_later_version/step") == first_steps(4));
  CHECK(run_python("run/read_samples.py", "'" + (folder / "metrics.h5").string() + "' 4") == 0);
  // A run that begins again writes the sample before its first step again.
  CHECK(io.run([&] { return end_history_after(folder.path(), 0); }).empty());
  const Hdf5File empty = Hdf5File::open(folder / "metrics.h5");
  CHECK(hdf5_read<std::int64_t>(empty.id(), "samples/step").empty());
  CHECK(std::filesystem::exists(folder / "metrics.h5.before-step-1"));
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
  const auto said = io.run([&] { return end_history_after(folder.path(), 4); });
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
  metrics.append(kSteps, row(20));
  metrics.make_durable(20);  // in vain
  std::promise<void> go_on;
  io.post(IoPriority::rows, [&] { go_on.get_future().wait(); });
  metrics.make_durable(21);
  go_on.set_value();
  CHECK_THROWS_AS(metrics.append(kSteps, row(21)), IoError);
  metrics.close();
  CHECK(steps_in(folder.path()) == first_steps(20));
}
