#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/simulate/cluster.hpp"

namespace tessera {

namespace {

/// Where a size lies among an axis's points: between `first` and the next, at `part` of the way in logarithms, and how
/// far beyond the ends.
struct Place {
  std::size_t first = 0;
  double part = 0;
  double beyond = 0;  ///< of the logarithm
};

bool goes_on(const PriceTable::Axis& axis) { return axis.values.size() > 1; }

Place place_of(const PriceTable::Axis& axis, double size) {
  const std::vector<double>& values = axis.values;
  const double logarithm = std::log(std::max(size, 1e-30));
  if (!goes_on(axis)) return {0, 0, axis.axis == PriceAxis::ranks ? 0 : logarithm - std::log(values[0])};
  const auto above = std::upper_bound(values.begin() + 1, values.end() - 1, size);
  const auto first = static_cast<std::size_t>(above - values.begin()) - 1;
  const double low = std::log(values[first]), high = std::log(values[first + 1]);
  const double inside = std::clamp(logarithm, low, high);
  return {first, (inside - low) / (high - low), logarithm - inside};
}

}  // namespace

PriceTable::PriceTable(std::vector<Axis> axes, std::vector<double> seconds)
    : axes_(std::move(axes)), seconds_(std::move(seconds)) {
  std::size_t points = 1;
  for (const Axis& axis : axes_) points *= axis.values.size();
  TESSERA_ASSERT(points == seconds_.size(), "a grid of {} points has {} prices", points, seconds_.size());
}

/// The logarithm of the time at places of the grid, one for each axis.
double PriceTable::logarithm_at(std::span<const std::pair<std::size_t, double>> places) const {
  double logarithm = 0;
  for (std::size_t corner = 0; corner < std::size_t{1} << axes_.size(); ++corner) {
    double weight = 1;
    std::size_t point = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const auto [first, part] = places[i];
      const bool upper = (corner >> i & 1) != 0;
      weight *= upper ? part : 1 - part;
      point = point * axes_[i].values.size() + std::min(first + (upper ? 1 : 0), axes_[i].values.size() - 1);
    }
    if (weight != 0) logarithm += weight * std::log(seconds_[point]);
  }
  return logarithm;
}

double PriceTable::seconds(const WorkSize& size) const {
  std::vector<std::pair<std::size_t, double>> places;
  std::vector<double> beyond;
  for (const Axis& axis : axes_) {
    const Place place = place_of(axis, size[static_cast<std::size_t>(axis.axis)]);
    places.emplace_back(place.first, place.part), beyond.push_back(place.beyond);
  }
  double logarithm = logarithm_at(places);
  // Each axis goes on by itself: slopes that depend on other axes would be multiplied by each other.
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (beyond[i] == 0) continue;
    double slope = 1;
    if (goes_on(axes_[i])) {
      auto low = places, high = places;
      low[i].second = 0, high[i].second = 1;
      const std::vector<double>& values = axes_[i].values;
      slope =
          (logarithm_at(high) - logarithm_at(low)) / std::log(values[places[i].first + 1] / values[places[i].first]);
    }
    logarithm += std::max(slope, 0.0) * beyond[i];  // no work takes less time because there is more of it
  }
  return std::exp(logarithm);
}

}  // namespace tessera
