#pragma once
// Values that a model's parts read and that no step changes.

#include <cstdint>
#include <vector>

#include "tessera/model/parts.hpp"

namespace tessera {

/// Computes the values of ModelParts::constants[number]. "rotary": cosine and sine of each position's angles,
/// [positions, head_width / 2, 2]. Angle i of position p is p / theta^(2 i / head_width) (Su et al. 2021), its
/// frequency scaled by RopeScaling. Computed in double and rounded once. Hugging Face multiplies position and frequency
/// in fp32, so its angles are off by up to 6e-8 of the angle.
std::vector<float> constant_values(const ModelParts& model, std::int32_t number);

}  // namespace tessera
