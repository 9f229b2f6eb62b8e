#include "tessera/checkpoint/best.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

std::optional<double> judged_loss(const NamedLosses& evaluation) {
  if (evaluation.empty() || !std::isfinite(evaluation.front().second)) return std::nullopt;
  return evaluation.front().second;
}

std::map<std::int64_t, double> JudgedCheckpoints::losses(std::int64_t newest) {
  std::map<std::int64_t, double> judged;
  unreadable_.clear();
  for (const std::int64_t step : folder_.steps()) {
    if (step > newest) continue;
    if (!known_.contains(step)) {
      try {
        note(step, read_manifest(folder_.of_step(step)).evaluation);
      } catch (const UnreadableError&) {
        unreadable_.insert(step);  // now; it is read again
        continue;
      } catch (const IoError&) {
        known_[step] = std::nullopt;
      }
    }
    if (known_[step]) judged[step] = *known_[step];
  }
  return judged;
}

std::set<std::int64_t> JudgedCheckpoints::best(std::int64_t count, std::int64_t newest) {
  std::vector<std::pair<double, std::int64_t>> order;
  for (const auto& [step, loss] : losses(newest)) order.emplace_back(loss, step);
  std::ranges::sort(order);
  std::set<std::int64_t> steps;
  for (const auto& [loss, step] : order) {
    if (std::ssize(steps) < count) steps.insert(step);
  }
  return steps;
}

std::set<std::int64_t> JudgedCheckpoints::kept(std::int64_t count, std::int64_t newest) {
  std::set<std::int64_t> steps = best(count, newest);
  steps.insert(unreadable_.begin(), unreadable_.end());
  return steps;
}

}  // namespace tessera
