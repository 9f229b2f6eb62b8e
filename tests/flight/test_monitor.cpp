// Warnings about late operations; those of whole runs are in tests/cli/test_flight.py.

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "temporary_folder.hpp"
#include "tessera/flight/monitor.hpp"
#include "tessera/telemetry/step_times.hpp"

using namespace tessera;
using testing::TemporaryFolder;

namespace {

/// A rank in a segment and in a collective of it, which should take `collective` and `segment` seconds; 0: nobody
/// knows.
class LateRank {
 public:
  LateRank(double collective, double segment) {
    recorder_.expect(std::vector<double>{collective, segment});
    recorder_.begin(kFlightSegments, 1, steady_nanoseconds());
    recorder_.begin(1, 0, steady_nanoseconds());
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

 private:
  static std::vector<FlightOperation> table() {
    std::vector<FlightOperation> rows(2);
    std::strcpy(rows[0].name.data(), "gather h.1"), rows[0].work = FlightWork::collective;
    std::strcpy(rows[1].name.data(), "micro-step");
    return rows;
  }

  TemporaryFolder folder_;
  FlightRecorder recorder_{{folder_.path(), false}, 0, 1, "a", 7, table()};
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  FlightMonitor monitor_{recorder_,
                         {60,
                          [this](const std::string& line) {
                            const std::lock_guard lock(mutex_);
                            warnings_.push_back(line);
                          },
                          {}}};
};

}  // namespace

TEST_CASE("a late segment is a warning unless a late collective in it is one") {
  LateRank both(0.01, 0.01), segment(0, 0.01), unknown(0, 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((both.warnings().empty() || segment.warnings().empty()) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // for a second warning, which must not come
  REQUIRE(both.warnings().size() == 1);
  CHECK_THAT(both.warnings()[0], Catch::StartsWith("rank 0 has been in gather h.1 of step 0 for "));
  REQUIRE(segment.warnings().size() == 1);
  CHECK_THAT(segment.warnings()[0], Catch::StartsWith("rank 0 has been in micro-step of step 0 for "));
  CHECK(unknown.warnings().empty());
}
