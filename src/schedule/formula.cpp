// Bytes that each rank sends per step, by strategy (README.md, Strategies): the yardstick for schedules and for bytes
// counted.
#include "schedule/rules.hpp"
#include "tessera/schedule/build.hpp"

namespace tessera {

namespace {

/// (n-1)/n of the padded parameters, exactly: units are multiples of the world.
std::int64_t sent(const StepSchedule& schedule, std::int64_t elements, DType dtype, Group group) {
  const std::int64_t n = schedule.grid.size(group);
  return elements / n * (n - 1) * size_of(dtype);
}

}  // namespace

std::int64_t formula_wire_bytes(const StepSchedule& schedule) {
  const std::int64_t P = schedule.layout.padded_elements();
  const std::int64_t K = schedule.accumulation;
  const std::int64_t times = schedule.deal.reduced_each_micro_step ? K : 1;  // gradients are reduced K times or once
  auto over = [&](Group group, DType dtype) { return sent(schedule, P, dtype, group); };
  const std::int64_t replicas = 2 * sent(schedule, P / schedule.grid.shard, schedule.reduce, Group::replica);
  switch (schedule.strategy) {
    case Strategy::ddp:
      return 2 * times * over(Group::world, schedule.reduce);
    case Strategy::zero1:
    case Strategy::zero2:
      return times * over(Group::shard, schedule.reduce) + over(Group::shard, schedule.compute);
    case Strategy::zero3:
      return 2 * K * over(Group::shard, schedule.compute) + times * over(Group::shard, schedule.reduce);
    case Strategy::hsdp:
      return 2 * K * over(Group::shard, schedule.compute) + times * over(Group::shard, schedule.reduce) + replicas;
    case Strategy::hsdp_zero2:
      return times * over(Group::shard, schedule.reduce) + over(Group::shard, schedule.compute) + replicas;
  }
  throw InternalError("no formula for strategy {}", static_cast<int>(schedule.strategy));
}

}  // namespace tessera
