#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <thread>

#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/flight/recorder.hpp"
#include "tessera/flight/survey.hpp"
#include "tessera/telemetry/step_times.hpp"

using namespace tessera;
using testing::TemporaryFolder;

namespace {

FlightOperation named(const char* name, FlightWork work) {
  FlightOperation operation;
  std::snprintf(operation.name.data(), operation.name.size(), "%s", name);
  operation.work = work;
  return operation;
}

const std::array kOperations{named("forward h.0", FlightWork::compute), named("gather h.1", FlightWork::collective),
                             named("load tokens", FlightWork::data)};

}  // namespace

TEST_CASE("a ring keeps the last records, and tells which operation is under way") {
  const TemporaryFolder folder;
  FlightRecorder recorder({folder.path(), false}, 0, 1, "a", 7, kOperations);
  recorder.set_step(3);
  for (std::int64_t i = 0; i < 1000; ++i) recorder.begin(2, i % 3, 10 * i), recorder.end(2, 10 * i + i % 3 + 1);
  recorder.begin(5, 1, 77);
  const RankFlight rank = read_flight(folder.path() / "rank-0");
  CHECK(rank.header.schedule == 7);
  CHECK(rank.last[2].record.number == 1000);
  CHECK(rank.last[2].record.begin == 9990);
  CHECK(rank.last[2].record.end == 9991);
  CHECK(rank.last[2].record.step == 3);
  CHECK(rank.last[2].name == "forward h.0");
  CHECK(rank.last[0].record.number == 0);
  CHECK(rank.last[5].is_under_way());
  CHECK(rank.current() == &rank.last[5]);
  CHECK(rank.life == RankLife::running);
  CHECK(recorder.usual_seconds(2) == Approx(3e-9));
  const double before = recorder.usual_seconds(1);
  recorder.expect(std::vector<double>{0.25, 0, 0.5});
  CHECK(recorder.usual_seconds(0) == 0.25);
  CHECK(recorder.usual_seconds(1) == before);
  CHECK(recorder.usual_seconds(2) == 0.5);
}

TEST_CASE("operations that were not seen leave their numbers out, and one that was only seen at its end no time") {
  const TemporaryFolder folder;
  FlightRecorder recorder({folder.path(), false}, 0, 1, "a", 7, kOperations);
  recorder.set_step(5);
  for (std::uint64_t number = 10; number <= 40; number += 10) {
    const auto begin = static_cast<std::int64_t>(1000 * number);
    recorder.begin(3, {number, begin, 0, 4, 1});
    recorder.end(3, number == 20 ? begin : begin + 8);
  }
  const RankFlight rank = read_flight(folder.path() / "rank-0");
  CHECK(rank.last[3].record.number == 40);
  CHECK(rank.last[3].record.step == 4);
  CHECK(recorder.last(3).number == 40);
  CHECK(recorder.usual_seconds(1) == Approx(8e-9));
  recorder.begin(3, 2, 50'000);
  CHECK(recorder.last(3).number == 41);
  CHECK(recorder.last(3).step == 5);
  int looks = 0;
  recorder.look();
  recorder.set_look([&] { ++looks; });
  recorder.look();
  recorder.set_look({});
  recorder.look();
  CHECK(looks == 1);
}

TEST_CASE("a record that was being written is not read") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rank-0";
  {
    FlightRecorder recorder({folder.path(), false}, 0, 1, "a", 7, kOperations);
    for (std::int64_t i = 1; i <= 9; ++i) recorder.begin(0, 0, i), recorder.end(0, i);
  }
  // As SIGKILL leaves it between the two stores of the number: the fields are half of one record and half of another.
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(sizeof(FlightHeader) + sizeof kOperations + 9 * sizeof(FlightRecord)));
  const std::uint64_t none = 0;
  file.write(reinterpret_cast<const char*>(&none), sizeof none);
  file.close();
  CHECK(read_flight(path).last[0].record.number == 8);
}

TEST_CASE("a record that is read while it is written is whole") {
  const TemporaryFolder folder;
  FlightRecorder recorder({folder.path(), false}, 0, 1, "a", 7, kOperations);
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (std::int64_t i = 1; !is_over; ++i) recorder.begin(3, i % 3, 1000 * i), recorder.end(3, 1000 * i + 1);
  });
  for (std::int64_t seen = 0, before = 0; seen < 100'000;) {
    const FlightRecord record = recorder.last(3);
    if (record.number == 0) continue;
    const auto number = static_cast<std::int64_t>(record.number);
    const bool is_whole = record.begin == 1000 * number && record.operation == number % 3 &&
                          (record.end == 0 || record.end == 1000 * number + 1);
    if (!is_whole || number < before) {
      is_over = true;
      writer.join();
      FAIL(number << " began at " << record.begin << " and ended at " << record.end << ", after " << before);
    }
    seen += number > before;
    before = number;
  }
  is_over = true;
  writer.join();
}

TEST_CASE("who may read the file follows the umask") {
  const TemporaryFolder folder;
  const mode_t before = ::umask(002);
  const FlightRecorder recorder({folder.path(), false}, 0, 1, "a", 7, kOperations);
  ::umask(before);
  const auto may = std::filesystem::status(folder.path() / "rank-0").permissions();
  CHECK((may & std::filesystem::perms::group_write) != std::filesystem::perms::none);
}

TEST_CASE("the end of a rank is noted once") {
  const TemporaryFolder folder;
  FlightRecorder recorder({folder.path(), false}, 1, 2, "a", 7, kOperations);
  recorder.failed("no disk");
  recorder.finished();
  const RankFlight rank = read_flight(folder.path() / "rank-1");
  CHECK(rank.life == RankLife::failed);
  CHECK(std::string(rank.header.message.data()) == "no disk");
}

TEST_CASE("on a network file system the files are the node's") {
  const TemporaryFolder folder;
  const std::string start = fmt::format("0123abcd-{}", ::getpid());  // this test may run twice at once
  const FlightFolder local = flight_folder(folder.path(), start, 0, true);
  CHECK(local.is_node_local);
  CHECK(local.path.filename() == "tessera-flight-" + start);
  {
    FlightRecorder recorder(local, 0, 1, start, 7, kOperations);
    CHECK(survey_run(folder.path()).ranks.size() == 1);
    recorder.finished();
  }
  CHECK_FALSE(std::filesystem::exists(local.path / "rank-0"));
  std::filesystem::remove_all(local.path);
  CHECK_FALSE(flight_folder(folder.path(), start, 0, false).is_node_local);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "flight" / kNodeLocal));
}

// test_flight "[bench]" prints nanoseconds per operation; nothing depends on them.
TEST_CASE("the price of a record", "[.][bench]") {
  const TemporaryFolder folder;
  FlightRecorder recorder({folder.path(), false}, 0, 1, "a", 7, kOperations);
  constexpr std::int64_t kTimes = 10'000'000;
  const auto measure = [&](const char* what, auto&& work) {
    const std::int64_t start = steady_nanoseconds();
    for (std::int64_t i = 0; i < kTimes; ++i) work(i);
    std::printf("%-40s %6.1f ns\n", what, static_cast<double>(steady_nanoseconds() - start) / kTimes);
  };
  measure("begin and end", [&](std::int64_t i) { recorder.begin(0, i % 3, i), recorder.end(0, i + 1); });
  measure("begin and end, with two clock readings", [&](std::int64_t i) {
    recorder.begin(0, i % 3, steady_nanoseconds());
    recorder.end(0, steady_nanoseconds());
  });
}
