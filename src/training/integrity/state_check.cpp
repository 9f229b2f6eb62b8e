#include "training/integrity/state_check.hpp"

#include <array>
#include <map>

#include "tessera/base/format.hpp"
#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

/// Numbers that should be equal, by rank.
using Replicas = std::map<std::size_t, std::uint64_t>;

/// Returns which ranks have another number than most; all of them if no number has a majority.
std::vector<std::size_t> odd_ones(const Replicas& replicas) {
  std::map<std::uint64_t, std::size_t> votes;
  for (const auto& [rank, number] : replicas) ++votes[number];
  std::vector<std::size_t> odd;
  for (const auto& [rank, number] : replicas) {
    if (2 * votes[number] <= replicas.size()) odd.push_back(rank);
  }
  return odd;
}

std::string listed(const std::vector<std::size_t>& ranks, const std::vector<std::string>& hosts) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (const std::size_t rank : ranks)
    text += fmt::format("{} {} ({})", rank == ranks[0] ? "" : ",", rank, hosts[rank]);
  return text;
}

/// Says which replicas differ; empty if none does.
std::string difference(const std::string& what, const Replicas& replicas, const std::vector<std::string>& hosts) {
  const std::vector<std::size_t> odd = odd_ones(replicas);
  if (odd.empty()) return {};
  if (odd.size() == replicas.size()) return fmt::format("{} on {} differ from each other", what, listed(odd, hosts));
  return fmt::format("{} on {} differ from those on {}", what, listed(odd, hosts),
                     counted(std::ssize(replicas) - std::ssize(odd), "other rank"));
}

std::string words_of(StateKind kind) {
  constexpr std::array<const char*, kStateKinds> kWords{"master weights", "first moments", "second moments"};
  return kWords[static_cast<std::size_t>(kind)];
}

/// Returns how many words of 32 bits elements of a state take. Slices are multiples of 64 elements.
std::int64_t words(std::int64_t elements, const StateVector& vector) { return elements * size_of(vector.dtype) / 4; }

/// Adds up the sums of all units with odd weights, so that any single difference shows in those of one.
RankSums total_of(const RankSums& sums) {
  RankSums total(1);
  for (const UnitId unit : sums.ids()) {
    const std::uint64_t weight = checksum_weight(unit.number());
    for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
      total[UnitId(0)].kept[kind] += weight * sums[unit].kept[kind];
      total[UnitId(0)].found.state[kind] += weight * sums[unit].found.state[kind];
    }
    total[UnitId(0)].found.copy += weight * sums[unit].found.copy;
    total[UnitId(0)].first = sums[unit].first;
  }
  return total;
}

}  // namespace

std::vector<std::string> differences(const std::vector<std::string>& units, const std::vector<RankSums>& of_ranks,
                                     const std::vector<std::string>& hosts) {
  std::vector<std::string> changed, replicas;
  const auto compare = [&](const std::string& what, const Replicas& numbers) {
    if (std::string text = difference(what, numbers, hosts); !text.empty()) replicas.push_back(std::move(text));
  };
  for (const UnitId unit : of_ranks.front().ids()) {
    const std::string& name = units[static_cast<std::size_t>(unit.number())];
    Replicas copies;
    for (const StateKind kind : kAllStates) {
      const auto k = static_cast<std::size_t>(kind);
      const std::string what = fmt::format("the {} of {}", words_of(kind), name);
      std::map<std::int64_t, Replicas> slices;
      for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
        const UnitSums& sums = of_ranks[rank][unit];
        copies[rank] = sums.found.copy;
        if (sums.kept[k] != sums.found.state[k]) {
          changed.push_back(fmt::format("{} on {} are not what was written there", what, listed({rank}, hosts)));
        } else {
          slices[sums.first][rank] = sums.found.state[k];
        }
      }
      for (const auto& [first, numbers] : slices) compare(what, numbers);
    }
    compare(fmt::format("the full parameters of {}", name), copies);
  }
  changed.insert(changed.end(), replicas.begin(), replicas.end());
  return changed;
}

StateCheck::StateCheck(const StepSchedule& schedule, Resources& resources)
    : schedule_(schedule),
      resources_(resources),
      stream_(resources.device->make_caller_stream("checksums")),
      hosts_(resources.context.control().all_gather(resources.context.host())),
      copies_(schedule.layout.units.size(), ValueId()),
      sums_(schedule.layout.units.size()) {
  for (const ValueId id : schedule.values.ids()) {
    const Value& value = schedule.value(id);
    const bool is_full = value.kind == ValueKind::parameter && value.placement.shard.empty() && value.first < 0;
    if (is_full && schedule.storage_of(id).always_live && schedule.storage_of(id).space == MemorySpace::device)
      copies_[value.unit] = id;
  }
  sum_up();
  for (const UnitId unit : schedule.layout.trained()) {
    sums_[unit].first = state_slice(schedule, resources, unit).first;
    resources.device->copy(kept(unit), &sums_[unit].found.state, sizeof(StateSums));
  }
}

StateSums* StateCheck::kept(UnitId unit) const {
  const StorageId storage = schedule_.is_offloaded(unit) ? schedule_.reserved(Reserved::host_state_sums)
                                                         : schedule_.reserved(Reserved::state_sums);
  return reinterpret_cast<StateSums*>(resources_.address(storage)) + unit.number();
}

void StateCheck::sum_up() {
  const std::size_t units = sums_.size();
  auto* const found = reinterpret_cast<FoundSums*>(resources_.address(schedule_.reserved(Reserved::state_sums)) +
                                                   units * sizeof(StateSums));
  Kernels& kernels = resources_.compute->kernels(Queue::compute);
  kernels.run(*stream_, FillZero{found, static_cast<std::int64_t>(units * sizeof(FoundSums))});
  for (const UnitId unit : schedule_.layout.units.ids()) {
    if (const ValueId copy = copies_[unit])
      kernels.run(*stream_, AddChecksum{resources_.address(schedule_.value(copy).storage),
                                        schedule_.value(copy).bytes() / 4, 0, &found[unit.number()].copy});
    if (schedule_.is_offloaded(unit) || !schedule_.unit(unit).trains) continue;
    for (const StateVector& vector : state_slice(schedule_, resources_, unit).vectors)
      kernels.run(*stream_, AddChecksum{vector.data, words(vector.count, vector), words(vector.first, vector),
                                        &found[unit.number()].state[static_cast<std::size_t>(vector.kind)]});
  }
  stream_->synchronize();
  std::vector<FoundSums> read(units);
  resources_.device->copy(read.data(), found, static_cast<std::int64_t>(units * sizeof(FoundSums)));
  for (const UnitId unit : schedule_.layout.units.ids()) {
    UnitSums& sums = sums_[unit];
    sums.found = read[static_cast<std::size_t>(unit.number())];
    if (!schedule_.unit(unit).trains) continue;
    resources_.device->copy(&sums.kept, kept(unit), sizeof(StateSums));
    if (!schedule_.is_offloaded(unit)) continue;
    for (const StateVector& vector : state_slice(schedule_, resources_, unit).vectors)
      resources_.compute->kernels(Queue::host)
          .run(*stream_, AddChecksum{vector.data, words(vector.count, vector), words(vector.first, vector),
                                     &sums.found.state[static_cast<std::size_t>(vector.kind)]});
  }
}

std::vector<std::string> StateCheck::differences() {
  sum_up();
  if (tessera::differences({"all units"}, resources_.context.control().all_gather(total_of(sums_)), hosts_).empty())
    return {};
  std::vector<std::string> names;
  for (const Unit& unit : schedule_.layout.units) names.push_back(unit.name);
  return tessera::differences(names, resources_.context.control().all_gather(sums_), hosts_);
}

}  // namespace tessera
