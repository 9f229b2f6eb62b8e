#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/simulate/cluster.hpp"

namespace tessera {

namespace {

/// Where a size lies among an axis's points: between `first` and the next, at `part` of the way in logarithms.
struct Place {
  std::size_t first = 0;
  double part = 0;
  double beyond = 1;  ///< factor of the time, for an axis with one point
};

Place place_of(const PriceTable::Axis& axis, double size) {
  const std::vector<double>& values = axis.values;
  size = std::max(size, 1e-30);
  if (values.size() == 1) return {0, 0, axis.axis == PriceAxis::ranks ? 1 : size / values[0]};
  const auto above = std::upper_bound(values.begin() + 1, values.end() - 1, size);
  const auto first = static_cast<std::size_t>(above - values.begin()) - 1;
  return {first, std::log(size / values[first]) / std::log(values[first + 1] / values[first]), 1};
}

}  // namespace

PriceTable::PriceTable(std::vector<Axis> axes, std::vector<double> seconds)
    : axes_(std::move(axes)), seconds_(std::move(seconds)) {
  std::size_t points = 1;
  for (const Axis& axis : axes_) points *= axis.values.size();
  TESSERA_ASSERT(points == seconds_.size(), "a grid of {} points has {} prices", points, seconds_.size());
}

double PriceTable::seconds(const WorkSize& size) const {
  std::vector<Place> places;
  double beyond = 1;
  for (const Axis& axis : axes_) {
    places.push_back(place_of(axis, size[static_cast<std::size_t>(axis.axis)]));
    beyond *= places.back().beyond;
  }
  double logarithm = 0;
  for (std::size_t corner = 0; corner < std::size_t{1} << axes_.size(); ++corner) {
    double weight = 1;
    std::size_t point = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const bool upper = (corner >> i & 1) != 0;
      if (axes_[i].values.size() == 1 && upper) weight = 0;
      if (axes_[i].values.size() > 1) weight *= upper ? places[i].part : 1 - places[i].part;
      point = point * axes_[i].values.size() + std::min(places[i].first + (upper ? 1 : 0), axes_[i].values.size() - 1);
    }
    if (weight != 0) logarithm += weight * std::log(seconds_[point]);
  }
  return beyond * std::exp(logarithm);
}

}  // namespace tessera
