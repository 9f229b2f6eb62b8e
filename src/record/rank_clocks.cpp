#include "record/rank_clocks.hpp"

#include <limits>
#include <map>
#include <string>

#include "tessera/telemetry/step_times.hpp"

namespace tessera {

namespace {

constexpr int kQuestions = 100;  // the fastest of them was not disturbed by other work

std::span<std::byte> bytes_of(std::int64_t& value) { return std::as_writable_bytes(std::span(&value, 1)); }

}  // namespace

RankClock ask_for_time(ControlPlane& control, int rank) {
  RankClock best{0, std::numeric_limits<std::int64_t>::max()};
  for (int i = 0; i < kQuestions; ++i) {
    std::int64_t asked = steady_nanoseconds(), there = 0;
    control.send(rank, bytes_of(asked));
    control.receive(rank, bytes_of(there));
    const std::int64_t half = (steady_nanoseconds() - asked + 1) / 2;
    if (half < best.uncertainty) best = {asked + half - there, half};
  }
  return best;
}

void tell_time(ControlPlane& control) {
  for (int i = 0; i < kQuestions; ++i) {
    std::int64_t question = 0;
    control.receive(0, bytes_of(question));
    std::int64_t now = steady_nanoseconds();
    control.send(0, bytes_of(now));
  }
}

std::vector<RankClock> compare_clocks(RankContext& context) {
  ControlPlane& control = context.control();
  const std::vector<std::string> machines = control.all_gather(context.machine());
  control.barrier();
  // The first rank of each other machine answers for all of them.
  std::map<std::string, RankClock> known{{machines.front(), {}}};
  std::vector<RankClock> clocks;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const auto [clock, is_new] = known.try_emplace(machines[rank]);
    const auto answers = static_cast<int>(rank);
    if (is_new && context.rank() == 0) clock->second = ask_for_time(control, answers);
    if (is_new && context.rank() == answers) tell_time(control);
    if (context.rank() == 0) clocks.push_back(clock->second);
  }
  return clocks;
}

}  // namespace tessera
