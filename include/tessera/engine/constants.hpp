#pragma once
// A model's constants (model/constants.hpp) on a rank.

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Writes the model's constants where the plan has them; once, before anything is played.
void set_constants(const StepSchedule& schedule, const Resources& resources);

}  // namespace tessera
