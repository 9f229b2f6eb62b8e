#include "tessera/telemetry/overlap.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/quantile.hpp"

namespace tessera {

namespace {

constexpr double kStandsOut = 0.1;  // of a rank's time; less is noise

double seconds_of(const std::array<std::int64_t, kTimeCategories>& nanoseconds, TimeCategory category) {
  return static_cast<double>(nanoseconds[static_cast<std::size_t>(category)]) * 1e-9;
}

}  // namespace

std::vector<std::string> overlap_names() {
  return {"compute",
          "data",
          "gather",
          "reduce_scatter",
          "all_reduce",
          "host",
          "exposed_gather",
          "exposed_reduce_scatter",
          "exposed_all_reduce",
          "exposed_host"};
}

OverlapTimes& OverlapTimes::operator+=(const OverlapTimes& other) {
  for (std::size_t i = 0; i < kOverlapKinds; ++i) seconds[i] += other.seconds[i];
  return *this;
}

double OverlapTimes::own_work() const {
  return (*this)[OverlapKind::compute] + (*this)[OverlapKind::data] + (*this)[OverlapKind::exposed_host];
}

double OverlapTimes::exposed_wait() const {
  return (*this)[OverlapKind::exposed_gather] + (*this)[OverlapKind::exposed_reduce_scatter] +
         (*this)[OverlapKind::exposed_all_reduce];
}

OverlapTimes overlap_of(const StepTimeTotals& step) {
  using C = TimeCategory;
  const auto waited = [&](C category) { return seconds_of(step.nanoseconds, category); };
  const auto ran = [&](C category) { return seconds_of(step.operations, category); };
  OverlapTimes times;
  times.seconds = {waited(C::forward) + waited(C::recompute) + waited(C::backward) + waited(C::optimizer),
                   waited(C::data),
                   ran(C::exposed_gather),
                   ran(C::exposed_reduce_scatter),
                   ran(C::exposed_all_reduce),
                   ran(C::exposed_other),
                   waited(C::exposed_gather),
                   waited(C::exposed_reduce_scatter),
                   waited(C::exposed_all_reduce),
                   waited(C::exposed_other)};
  return times;
}

Spread spread_of(std::vector<double> values) {
  TESSERA_ASSERT(!values.empty(), "a spread is of at least one value");
  const auto [least, most] = std::ranges::minmax(values);
  return {least, median(std::move(values)), most};
}

Straggler find_straggler(std::span<const OverlapTimes> ranks) {
  if (ranks.size() < 2) return {};
  const auto most = std::ranges::max_element(ranks, {}, &OverlapTimes::own_work);
  const auto waits_less = [&](const OverlapTimes& rank) { return rank.exposed_wait() < most->exposed_wait(); };
  if (std::ranges::any_of(ranks, waits_less)) return {};
  std::vector<double> others;
  for (auto rank = ranks.begin(); rank != ranks.end(); ++rank) {
    if (rank != most) others.push_back(rank->own_work());
  }
  const double behind = most->own_work() - spread_of(std::move(others)).median;
  const double all = most->own_work() + most->exposed_wait();
  if (!(behind >= kStandsOut * all) || all <= 0) return {};
  return {most - ranks.begin(), behind, behind / all};
}

}  // namespace tessera
