#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/flight/recorder.hpp"
#include "tessera/flight/survey.hpp"
#include "tessera/telemetry/step_times.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using testing::TemporaryFolder;

namespace {

std::vector<FlightOperation> table() {
  std::vector<FlightOperation> rows(3);
  std::strcpy(rows[0].name.data(), "forward h.0");
  std::strcpy(rows[1].name.data(), "gather h.1"), rows[1].work = FlightWork::collective;
  std::strcpy(rows[2].name.data(), "load tokens"), rows[2].work = FlightWork::data;
  return rows;
}

/// Ranks as they were `ago` seconds ago; each in `works` begins what it does. They end with the folder.
struct Ranks {
  TemporaryFolder folder;
  std::vector<std::unique_ptr<FlightRecorder>> all;

  FlightRecorder& add(std::int64_t world = 2) {
    const auto rank = static_cast<std::int64_t>(all.size());
    all.push_back(std::make_unique<FlightRecorder>(FlightFolder{folder.path(), false}, rank, world, "a", 7, table()));
    all.back()->enter(FlightPhase::step);
    all.back()->set_step(12);
    return *all.back();
  }
  std::string verdict() const { return flight_verdict(survey({folder.path()})); }
  std::string report() const { return flight_report(survey({folder.path()})); }
};

std::int64_t seconds_ago(double seconds) { return steady_nanoseconds() - static_cast<std::int64_t>(seconds * 1e9); }

void overwrite(const std::filesystem::path& path, std::int64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TEST_CASE("the time in which a rank was stopped itself is not part of its waits") {
  Ranks ranks;
  ranks.add().begin(0, 1, seconds_ago(400));
  ranks.add();
  CHECK_THAT(ranks.verdict(), Contains("rank 0 waits for 6 min 40"));
  ranks.all[0]->was_stopped(330);
  CHECK_THAT(ranks.verdict(), Contains("rank 0 waits for 1 min 10"));
  ranks.all[0]->end(0, seconds_ago(250));
  ranks.all[0]->begin(0, 1, seconds_ago(200));
  CHECK_THAT(ranks.verdict(), !Contains("waits for"));
}

TEST_CASE("a rank that did not come to a collective is named, with what it does") {
  Ranks ranks;
  ranks.add().begin(0, 1, seconds_ago(8));
  ranks.add();
  SECTION("it waits for data") {
    ranks.all[1]->begin(1, 2, seconds_ago(9));
    CHECK_THAT(ranks.verdict(), Contains("rank 1 on ") && Contains("never arrived in gather h.1 of step 12") &&
                                    Contains("rank 0 waits for 8") &&
                                    Contains("s. It runs; step 12, waits for data in load tokens"));
  }
  SECTION("it computes") {
    ranks.all[1]->begin(1, 0, seconds_ago(9));
    CHECK_THAT(ranks.verdict(), Contains("rank 1 on ") && Contains("It runs; step 12, in forward h.0 for 9"));
  }
  SECTION("it waits for data while its GPU is in a segment") {
    ranks.all[1]->begin(kFlightSegments, 0, seconds_ago(10));
    CHECK_THAT(ranks.verdict(), Contains("It runs; step 12, in forward h.0 for 10"));
    ranks.all[1]->begin(1, 2, seconds_ago(9));
    CHECK_THAT(ranks.verdict(), Contains("It runs; step 12, waits for data in load tokens for 9"));
  }
  SECTION("it has failed") {
    ranks.all[1]->failed("no\x1b[31m disk");
    CHECK_THAT(ranks.verdict(), Contains("It failed (no?[31m disk)"));
  }
}

TEST_CASE("a rank that did not come to a checkpoint is named, though others wait for those that wait for it") {
  Ranks ranks;
  for (int i = 0; i < 3; ++i) ranks.add(3).begin(0, 0, seconds_ago(2));
  for (const int i : {0, 2}) ranks.all[static_cast<std::size_t>(i)]->end(0, seconds_ago(1.9));
  for (const int i : {0, 2}) ranks.all[static_cast<std::size_t>(i)]->enter(FlightPhase::checkpoint);
  CHECK(ranks.verdict().find("never arrived") == std::string::npos);  // not yet for a second
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  CHECK_THAT(ranks.verdict(), Contains("rank 1 on ") && Contains("never arrived in the checkpoint of step 12") &&
                                  Contains("ranks 0, 2 wait for 1") && Contains("step 12, in forward h.0 for 3"));
  ranks.all[1]->end(0, seconds_ago(0));  // it is before the checkpoint now, or after it
  CHECK(ranks.verdict().find("never arrived") == std::string::npos);
}

TEST_CASE("a rank that failed by itself in a checkpoint is named, and not one that was late for it") {
  Ranks ranks;
  for (int i = 0; i < 3; ++i) ranks.add(3).begin(0, 0, seconds_ago(2));
  for (const int i : {0, 2}) ranks.all[static_cast<std::size_t>(i)]->end(0, seconds_ago(1.9));
  for (const int i : {0, 2}) ranks.all[static_cast<std::size_t>(i)]->enter(FlightPhase::checkpoint);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  SECTION("it gave up waiting") {
    ranks.all[2]->failed("rank 1 did not come", FlightEnd::gave_up);
    CHECK_THAT(ranks.verdict(), Contains("rank 1 on ") && Contains("never arrived in the checkpoint of step 12"));
  }
  SECTION("it did not wait for anybody") {
    ranks.all[2]->failed("no space left");
    for (const int i : {0, 1}) ranks.all[static_cast<std::size_t>(i)]->failed("told", FlightEnd::told);
    CHECK_THAT(ranks.verdict(), Contains("rank 2 on ") && Contains("failed (no space left)") && !Contains("rank 1"));
  }
}

TEST_CASE("a rank stays in the phase in which it failed") {
  Ranks ranks;
  FlightRecorder& rank = ranks.add();
  { const FlightScope scope(&rank, FlightPhase::report); }
  CHECK(rank.phase() == FlightPhase::step);
  try {
    const FlightScope scope(&rank, FlightPhase::checkpoint);
    throw IoError("no disk");
  } catch (const IoError&) {
    CHECK(rank.phase() == FlightPhase::checkpoint);
  }
}

TEST_CASE("a link is slow if all ranks have come") {
  Ranks ranks;
  for (int i = 0; i < 2; ++i) ranks.add().begin(0, 1, seconds_ago(8));
  CHECK_THAT(ranks.verdict(), Contains("ranks 0, 1 arrived 8") &&
                                  EndsWith(" s ago in gather h.1 of step 12, which is not done: the link is slow, or a "
                                           "message was lost\n"));
}

TEST_CASE("of a rank whose file was lost with its node, those that wait for it say what they know") {
  Ranks ranks;
  for (int i = 0; i < 2; ++i) ranks.add(3).begin(0, 1, seconds_ago(8));
  ranks.all[0]->failed("rank 2 did not arrive within 8 s", FlightEnd::gave_up);
  CHECK_THAT(ranks.verdict(), Contains("ranks 0, 1 arrived 8") && Contains(" s ago in gather h.1 of step 12") &&
                                  Contains("what rank 2 did is not known here\nrank 0 on ") &&
                                  Contains("failed (rank 2 did not arrive within 8 s)"));
}

TEST_CASE("nothing is said about a run that goes on") {
  Ranks ranks;
  ranks.add().begin(0, 1, seconds_ago(0));
  ranks.add();
  CHECK(ranks.verdict().empty());
  CHECK_THAT(ranks.report(), Contains("flight     2 of 2 ranks") && Contains("no rank has waited for another"));
}

TEST_CASE("ranks whose files are elsewhere are named, and those of an earlier start are left out") {
  Ranks ranks;
  FlightRecorder early({ranks.folder.path(), false}, 3, 5, "before", 7, table());
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ranks.add(4), ranks.add(4);
  CHECK_THAT(ranks.report(),
             Contains("flight     2 of 4 ranks") && Contains("unseen     ranks 2, 3 left no file here"));
}

TEST_CASE("many ranks that are alike share a line") {
  Ranks ranks;
  for (int i = 0; i < 20; ++i) ranks.add(20).begin(0, i == 7 ? 0 : 1, seconds_ago(8));
  CHECK_THAT(ranks.report(), Contains("and so are 18 ranks like it") && Contains("\nrank 7 "));
}

TEST_CASE("processes that are stopped, killed, or end by a fault are told apart") {
  const TemporaryFolder folder;
  const auto forked = [&](std::int64_t rank, const std::function<void()>& ends) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (const int number : {SIGSEGV, SIGABRT}) ::signal(number, SIG_DFL);  // not Catch's
      const FaultMarks marks;
      FlightRecorder recorder({folder.path(), false}, rank, 3, "a", 7, table());
      recorder.begin(0, 0, steady_nanoseconds());
      ends();
      ::_exit(0);
    }
    return child;
  };
  const pid_t stopped = forked(0, [] { ::raise(SIGSTOP); });
  const pid_t killed = forked(1, [] { ::raise(SIGKILL); });
  const pid_t faulty = forked(2, [] { ::raise(SIGSEGV); });
  int status = 0;
  ::waitpid(killed, &status, 0), ::waitpid(faulty, &status, 0);
  CHECK(WIFSIGNALED(status));
  ::waitpid(stopped, &status, WUNTRACED);
  FlightSurvey seen = survey({folder.path()});
  CHECK(seen.ranks[0].life == RankLife::stopped);
  CHECK_THAT(flight_report(seen), Contains("is stopped (SIGSTOP); step 0, in forward h.0") &&
                                      Contains("killed (SIGKILL)") && Contains("it died of signal 11"));
  note_stopped(folder.path(), seen, 2);
  ::kill(stopped, SIGKILL);
  ::waitpid(stopped, &status, 0);
  CHECK_THAT(flight_report(survey({folder.path()})), Contains("was stopped (SIGSTOP) when rank 2 gave up waiting"));
}

TEST_CASE("a hostile file is refused with a reason") {
  Ranks ranks;
  ranks.add().begin(0, 1, 5);
  const auto path = ranks.folder.path() / "rank-0";
  const auto word = [](std::int64_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto row = static_cast<std::int64_t>(sizeof(FlightHeader) + sizeof(FlightOperation));
  const auto record =
      static_cast<std::int64_t>(sizeof(FlightHeader) + 3 * sizeof(FlightOperation) + sizeof(FlightRecord));
  SECTION("too short") {
    std::filesystem::resize_file(path, 100);
    CHECK_THROWS_WITH(ranks.report(), Contains("too short"));
  }
  SECTION("cut off") {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 64);
    CHECK_THROWS_WITH(ranks.report(), Contains("damaged"));
  }
  SECTION("something else") {
    overwrite(path, 0, "\x1b[2JTSFL");
    CHECK_THROWS_WITH(ranks.report(), Contains("is not a flight file"));
  }
  SECTION("another version") {
    overwrite(path, 8, std::string(4, '\x7f'));
    CHECK_THROWS_WITH(ranks.report(), Contains("another version"));
  }
  SECTION("a number of operations that cannot be") {
    for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{4}, INT64_MAX}) {
      overwrite(path, offsetof(FlightHeader, operations), word(count));
      CHECK_THROWS_AS(ranks.report(), IoError);
    }
  }
  SECTION("an unknown phase or kind") {
    overwrite(path, offsetof(FlightHeader, phase), std::string(4, '\x7f'));
    CHECK_THROWS_WITH(ranks.report(), Contains("damaged"));
    overwrite(path, offsetof(FlightHeader, phase), std::string(4, '\0'));
    overwrite(path, row + static_cast<std::int64_t>(offsetof(FlightOperation, work)), "\x7f");
    CHECK_THROWS_WITH(ranks.report(), Contains("damaged"));
  }
  SECTION("a record of an operation that is not there is passed over") {
    overwrite(path, record + static_cast<std::int64_t>(offsetof(FlightRecord, operation)), word(3));
    CHECK_THAT(ranks.report(), Contains("before its first operation"));
  }
  SECTION("times that cannot be") {
    overwrite(path, record + static_cast<std::int64_t>(offsetof(FlightRecord, begin)), word(INT64_MIN));
    overwrite(path, offsetof(FlightHeader, heartbeat_unix), word(INT64_MAX));
    CHECK_THAT(ranks.report(), Contains("gather h.1"));
  }
  SECTION("names with control characters and without an end") {
    overwrite(path, row, "\x1b]0;" + std::string(44, '\n'));
    overwrite(path, offsetof(FlightHeader, host), std::string(64, '\x07'));
    const std::string text = ranks.report();
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find('\x07') == std::string::npos);
  }
  SECTION("a world as large as a number can be") {
    overwrite(path, offsetof(FlightHeader, world), std::string("\xff\xff\xff\x7f", 4));
    CHECK_THAT(ranks.report(), Contains("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2147483638 more left no file here"));
  }
}

TEST_CASE("a rank that was killed between a new phase and the next heartbeat was not in it for less than no time") {
  Ranks ranks;
  ranks.add(1).enter(FlightPhase::checkpoint);
  const auto path = ranks.folder.path() / "rank-0";
  overwrite(path, offsetof(FlightHeader, system), "elsewhere");
  overwrite(path, offsetof(FlightHeader, heartbeat), std::string(8, '\0'));
  CHECK_THAT(ranks.report(), Contains("checkpoint for 0 "));
}

TEST_CASE("a rank of another machine is silent once its heartbeat is old") {
  Ranks ranks;
  ranks.add().begin(0, 1, seconds_ago(8));
  ranks.add();
  const auto path = ranks.folder.path() / "rank-1";
  overwrite(path, offsetof(FlightHeader, system), "elsewhere");
  CHECK_THAT(ranks.verdict(), Contains("rank 1 on ") && Contains("It runs; step 12, before its first operation"));
  overwrite(path, offsetof(FlightHeader, heartbeat_unix), std::string(8, '\0'));
  CHECK_THAT(ranks.verdict(), Contains("It is silent: its machine is gone, or it was killed or stopped (SIGSTOP)"));
}
