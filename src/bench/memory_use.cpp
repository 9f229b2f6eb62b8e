#include "bench/memory_use.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "tessera/base/format.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/engine/used_bytes.hpp"
#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

constexpr auto kDevice = static_cast<std::size_t>(MemorySpace::device);
constexpr auto kHost = static_cast<std::size_t>(MemorySpace::host);

bool has_own_memory(DeviceKind device) { return traits_of(device).has_own_memory; }

/// The memory in use at one moment.
struct Moment {
  std::int64_t in_use = 0;
  MappingBytes process;  ///< on cores
};

/// Reads once all ranks have finished their earlier work. Freed memory goes back to the system first. Collective.
Moment now(RankContext& context, const Options& options) {
  malloc_trim(0);
  context.control().barrier();
  Moment moment;
  if (has_own_memory(device_of(options.run))) {
    moment.in_use = backend_of(options).used_memory(context, options.run.share_gpu);
  } else {
    moment.process = mapping_bytes();
    moment.in_use = moment.process.total;
  }
  context.control().barrier();
  return moment;
}

void take_snapshot(TrainingSession& session) {
  session.player().finish_step();
  if (!session.schedule().snapshot.empty()) session.take_snapshot();
}

/// Plays everything that a session's plan is made for.
void play_all(TrainingSession& session, const Options& options, RankContext& context, bool has_validation) {
  for (std::int64_t i = 0; i < std::max<std::int64_t>(2, options.bench.warmup); ++i) session.train_step();
  if (has_validation) session.evaluate(context.size());
  take_snapshot(session);
}

std::array<std::int64_t, kNamedParts> named_bytes(const Moment& before, const Moment& after, const Resources& resources,
                                                  const MemoryPlan& plan) {
  const std::int64_t shared = plan.region(MemorySpace::device, RegionKind::shared).bytes;
  if (has_own_memory(resources.device->kind())) {
    const TakenMemory& taken = resources.taken;
    const std::int64_t own = plan.at(MemorySpace::device).total() - shared;
    return {taken.compute, taken.communicators - shared, taken.regions - own};
  }
  std::int64_t staging = 0;
  for (const UnplannedMemory& use : resources.unplanned) staging += use.bytes;
  std::int64_t heap = after.process.heap - before.process.heap;
  if (heap >= staging) heap -= staging;                           // otherwise malloc took a mapping for it
  const bool is_mapped = resources.context.ranks_per_node() > 1;  // otherwise the region is private memory
  return {after.process.files - before.process.files,
          after.process.shared - before.process.shared - (is_mapped ? shared : 0) + staging, heap};
}

std::vector<std::string> names_of(const std::array<SpaceUse, kMemorySpaces>& uses) {
  std::vector<std::string> names;
  for (const SpaceUse& use : uses) {
    for (const auto& [name, bytes] : use.unused)
      names.push_back(fmt::format("{} of {}", format_bytes(bytes), name.empty() ? "no storage" : name));
  }
  return names;
}

std::vector<RankMemoryUse> gathered(RankContext& context, const RankMemoryUse& mine) {
  static_assert(std::is_trivially_copyable_v<RankMemoryUse>);  // every rank runs the same program
  std::vector<RankMemoryUse> ranks;
  for (const std::string& text :
       context.control().all_gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine))) {
    TESSERA_ASSERT(text.size() == sizeof mine, "a rank's memory has {} bytes", text.size());
    std::memcpy(&ranks.emplace_back(), text.data(), sizeof mine);
  }
  return ranks;
}

}  // namespace

std::array<const char*, kNamedParts> named_parts(DeviceKind device) {
  if (has_own_memory(device)) return {"kernels", "communication", "rounding"};
  return {"libraries", "communication", "heap"};
}

std::int64_t RankMemoryUse::planned_in_use(DeviceKind device) const {
  return planned[kDevice] + (has_own_memory(device) ? 0 : planned[kHost]);
}

std::int64_t RankMemoryUse::unnamed(DeviceKind device) const {
  return in_use - before - planned_in_use(device) - std::accumulate(named.begin(), named.end(), std::int64_t{0});
}

MemoryUse measure_memory(RankContext& context, const ResolvedRun& run) {
  const Options& options = run.options;
  const PlannedRun& planned = run.planned;
  const bool has_validation = !run.data->validation().empty();
  RankMemoryUse mine;
  mine.planned = {planned.plan.at(MemorySpace::device).total(), planned.plan.at(MemorySpace::host).total()};
  const Moment before = now(context, options);
  mine.before = before.in_use;
  {
    const auto session = open_session(context, run);
    play_all(*session, options, context, has_validation);
    const Moment after = now(context, options);
    mine.in_use = after.in_use;
    mine.named = named_bytes(before, after, session->resources(), planned.plan);
  }
  mine.left = now(context, options).in_use - mine.before;
  MemoryUse use;
  {
    MachineShape filled = run.machine;
    filled.fill = true;
    TrainingSession session(context, options, planned, *run.data, filled, run.weights->source());
    play_all(session, options, context, has_validation);
    const UsedBytes bytes(planned.schedule, session.resources());
    session.train_step();
    take_snapshot(session);
    const std::array<SpaceUse, kMemorySpaces> uses = bytes.read();
    mine.used = {uses[kDevice].used, uses[kHost].used};
    use.unused = names_of(uses);
    context.control().barrier();  // no rank frees memory to which another still writes
  }
  use.ranks = gathered(context, mine);
  return use;
}

}  // namespace tessera
