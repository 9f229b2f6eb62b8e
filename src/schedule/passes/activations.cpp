#include "schedule/passes/activations.hpp"

#include <algorithm>
#include <ranges>

namespace tessera {

namespace {

/// An output of forward that stays until a recompute reads it.
struct Kept {
  PartId part;
  std::int64_t made = 0, wanted = 0;  ///< compute steps: the one that made it, and the first of backward that reads it
};

/// Returns what recomputes start from, in the order of backward, except for what another recompute makes.
std::vector<Kept> inputs_of_recomputes(const std::vector<ComputeStep>& steps, std::int64_t head, std::size_t parts) {
  std::vector<Kept> kept;
  IndexedVector<PartId, std::int64_t> made(parts, 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i);
    const bool recomputes = steps[i].kind == OperationKind::recompute;
    if (recomputes && made[steps[i].part - 1] < head)
      kept.push_back({steps[i].part - 1, made[steps[i].part - 1], step});
    if (steps[i].kind != OperationKind::backward && steps[i].writes_output) made[steps[i].part] = step;
  }
  return kept;
}

}  // namespace

void InputCopies::plan(const std::vector<ComputeStep>& steps) {
  trips_.clear();
  const StepSchedule& s = w_.schedule();
  if (s.offloaded_inputs == 0) return;
  head_ = std::ranges::find_if(steps, [](const ComputeStep& step) { return step.is_head; }) - steps.begin();
  const std::vector<Kept> kept = inputs_of_recomputes(steps, head_, s.model.parts.size());
  const std::int64_t ahead = s.policy.inputs_in_flight - 1;
  for (std::int64_t i = 0; i < std::ssize(kept); ++i) {
    const Kept& one = kept[static_cast<std::size_t>(i)];
    if (one.wanted == head_ + 1) continue;  // it would be copied out only to be copied back
    const std::int64_t after = i < ahead ? head_ : kept[static_cast<std::size_t>(i - ahead)].wanted - 1;
    trips_.insert(trips_.begin(), {one.part, one.made, after});
  }
}

std::vector<Edge> InputCopies::waits_of(std::int64_t step) const {
  if (trips_.empty()) return {};
  // While the head computes, where memory often peaks, no input is left on the device.
  if (step == head_) return {{trips_.back().stored, EdgeReason::staging}};
  const auto limit = static_cast<std::size_t>(w_.policy().inputs_in_flight);
  for (std::size_t i = limit; i < trips_.size(); ++i) {
    if (trips_[i].made == step) return {{trips_[i - limit].stored, EdgeReason::staging}};
  }
  return {};
}

void InputCopies::copy_after(std::int64_t step, OperationId done, IndexedVector<PartId, ValueId>& outputs) {
  for (Trip& trip : trips_) {
    if (trip.made == step) store(trip, outputs[trip.part]);
  }
  for (const Trip& trip : trips_ | std::views::reverse) {  // the first one that backward needs comes first
    if (trip.after == step) outputs[trip.part] = load(trip, done);
  }
}

void InputCopies::store(Trip& trip, ValueId output) {
  Operation op = operation_of(OperationKind::store, Queue::store, {});
  op.part = trip.part;
  op.reads = {output};
  Storage place = in_host_memory("activations", local(w_.schedule().part(trip.part).name, Category::activations));
  trip.on_host = w_.write(op, std::move(place), w_.value(output));
  trip.stored = w_.emit(std::move(op));
}

ValueId InputCopies::load(const Trip& trip, OperationId after) {
  Operation op = operation_of(OperationKind::load, Queue::load, {});
  op.part = trip.part;
  op.reads = {trip.on_host};
  op.after = {{after, EdgeReason::prefetch}};
  const std::string name = "out " + w_.schedule().part(trip.part).name;
  const ValueId back = w_.write(op, local(name, Category::activations), w_.value(trip.on_host));
  w_.emit(std::move(op));
  return back;
}

}  // namespace tessera
