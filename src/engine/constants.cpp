#include "tessera/engine/constants.hpp"

#include <set>

#include "tessera/model/constants.hpp"

namespace tessera {

void set_constants(const StepSchedule& schedule, const Resources& resources) {
  std::set<StorageId> done;
  for (const Value& value : schedule.values) {
    if (value.kind != ValueKind::constant || !done.insert(value.storage).second) continue;
    const std::vector<float> values = constant_values(schedule.model, value.slot);
    resources.device->copy(resources.address(value.storage), values.data(),
                           static_cast<std::int64_t>(values.size() * sizeof(float)));
  }
}

}  // namespace tessera
