#include <catch2/catch.hpp>

#include "local_world/local_world.hpp"
#include "record/rank_clocks.hpp"
#include "tessera/telemetry/step_times.hpp"

using namespace tessera;

TEST_CASE("a clock that is compared with itself differs by less than the comparison is sure of") {
  run_ranks(2, 1, [](RankContext& context) {
    if (context.rank() != 0) return tell_time(context.control());
    const std::int64_t start = steady_nanoseconds();
    const RankClock clock = ask_for_time(context.control(), 1);
    CHECK(std::abs(clock.offset) <= clock.uncertainty);  // both threads read one clock
    CHECK((clock.uncertainty > 0 && clock.uncertainty < steady_nanoseconds() - start));
  });
}

namespace {

/// A rank on a machine with another name; it talks through another context.
class OnMachine final : public RankContext {
 public:
  OnMachine(RankContext& inner, std::string machine) : inner_(inner), machine_(std::move(machine)) {}
  std::int64_t rank() const override { return inner_.rank(); }
  std::int64_t size() const override { return inner_.size(); }
  std::int64_t ranks_per_node() const override { return inner_.ranks_per_node(); }
  const std::string& host() const override { return machine_; }
  const std::string& machine() const override { return machine_; }
  ControlPlane& control() override { return inner_.control(); }
  FailureNotice& notice() override { return inner_.notice(); }
  MemoryExchange& memory() override { return inner_.memory(); }
  std::unique_ptr<Transport> open_transport(const std::vector<std::int64_t>& members) override {
    return inner_.open_transport(members);
  }

 private:
  RankContext& inner_;
  std::string machine_;
};

}  // namespace

TEST_CASE("ranks of rank 0's machine have its clock, and other machines' are measured") {
  for (const std::int64_t per_machine : {4, 2, 1}) {
    run_ranks(4, 1, [&](RankContext& thread) {
      OnMachine context(thread, "machine " + std::to_string(thread.rank() / per_machine));
      const std::vector<RankClock> clocks = compare_clocks(context);
      if (context.rank() != 0) {
        CHECK(clocks.empty());
        return;
      }
      REQUIRE(clocks.size() == 4);
      for (std::int64_t rank = 0; rank < 4; ++rank) {
        const auto& clock = clocks[static_cast<std::size_t>(rank)];
        CHECK(std::abs(clock.offset) <= clock.uncertainty);
        CHECK((clock.uncertainty == 0) == (rank / per_machine == 0));
        const auto& first = clocks[static_cast<std::size_t>(rank / per_machine * per_machine)];
        CHECK((clock.offset == first.offset && clock.uncertainty == first.uncertainty));
      }
    });
  }
}
