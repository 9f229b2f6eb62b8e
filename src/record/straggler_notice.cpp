#include "tessera/record/straggler_notice.hpp"

#include <fmt/format.h>

#include <utility>

#include "tessera/base/format.hpp"

namespace tessera {

std::string StragglerNotice::after(const RankRow& report) {
  const Straggler& named = report.straggler;
  if (report.timed_steps == 0 || std::exchange(last_, named.rank) != named.rank || named.rank == said_) return {};
  const std::int64_t before = std::exchange(said_, named.rank);
  if (named.rank < 0) return fmt::format("step {}: rank {} is no longer slowing the others down", report.step, before);
  return fmt::format(
      "step {}: rank {} is slowing the others down: its own work (compute, data, host) takes {} longer per step than "
      "that of the other ranks (median), {} of its time",
      report.step, named.rank, format_seconds(named.behind_seconds / static_cast<double>(report.timed_steps)),
      format_percent(named.behind_share));
}

}  // namespace tessera
