#pragma once
// A rank's state by unit: which elements of the flat parameters it holds, and where on its device (Device::copy reaches
// them). Initialisation, weights from files, dumps and checkpoints use this.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tessera/engine/resources.hpp"
#include "tessera/optimizer/state_slice.hpp"

namespace tessera {

/// Returns where this rank keeps its slice of the state of a unit that trains.
StateSlice state_slice(const StepSchedule& schedule, const Resources& resources, UnitId unit);
/// Returns this rank's share of a unit in the last snapshot, on the host: elements of its state_slice.
StateSlice snapshot_slice(const StepSchedule& schedule, const Resources& resources, UnitId unit);

/// This rank's slice of a unit's finished gradient, between the last micro-step and the update.
struct GradientSlice {
  UnitId unit;
  std::int64_t first = 0, count = 0;
  const void* data = nullptr;
  DType dtype = DType::fp32;
  std::vector<TensorRun> runs;
};

GradientSlice gradient_slice(const StepSchedule& schedule, const Resources& resources, UnitId unit);

/// Fills elements [first, first + out.size()) of a tensor.
using TensorSource = std::function<void(TensorId tensor, std::int64_t first, std::span<float> out)>;

/// Sets this rank's slices from `source` (called from several threads): masters, and of units that do not train
/// parameters, rounded to the compute type. Padding and moments become zero. No rank holds more than its slices, and
/// the host one slice of parameters at a time.
void set_weights(const StepSchedule& schedule, const Resources& resources, const TensorSource& source);

/// The same for units that do not train alone: a checkpoint holds the others.
void set_frozen_weights(const StepSchedule& schedule, const Resources& resources, const TensorSource& source);

/// Writes the model's constants (model/initialize.hpp) where the plan has them; once, before anything is played.
void set_constants(const StepSchedule& schedule, const Resources& resources);

}  // namespace tessera
