#include "tessera/engine/resources.hpp"

#include "tessera/engine/backend.hpp"

namespace tessera {

Resources::Resources(const Backend& backend, RankContext& rank_context, const StepSchedule& schedule,
                     const MemoryPlan& plan, const ResourceSettings& resource_settings)
    : context(rank_context),
      settings(resource_settings),
      grid(schedule.grid.on_nodes_of(rank_context.ranks_per_node())),
      device(backend.open_device(rank_context, resource_settings.share_device)),
      memory(std::make_unique<RankMemory>(*device, schedule, plan)) {
  TESSERA_ASSERT(schedule.grid.world() == context.size(), "the schedule is for {} ranks, the world has {}",
                 schedule.grid.world(), context.size());
  backend.open(*this, schedule, plan);
  memory->attach_shared(schedule, plan, communicators->device_shared(), communicators->host_shared());
}

Resources::Resources(RankContext& rank_context, const ProcessGrid& process_grid, std::unique_ptr<Device> its_device,
                     std::unique_ptr<RankMemory> its_memory, std::unique_ptr<RankCompute> its_compute,
                     std::unique_ptr<Communicators> its_communicators)
    : context(rank_context),
      grid(process_grid),
      device(std::move(its_device)),
      memory(std::move(its_memory)),
      compute(std::move(its_compute)),
      communicators(std::move(its_communicators)) {}

std::int64_t Resources::index_in(Group group) const { return grid.index_in(group, context.rank()); }

}  // namespace tessera
