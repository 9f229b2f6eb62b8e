#pragma once
// The values that a model begins with. Initial weights are computed element by element from counters, so that any slice
// on any rank equals that slice of the full tensor. Constants are read by its parts, and no step changes them.

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/model/parts.hpp"

namespace tessera {

/// Computes out[i] = initial value of element first_element + i of tensor number `id`: zero, one, normal or uniform.
/// Normal is the tensor's standard deviation times the element's number from base/counter_rng.hpp, and uniform lies
/// between minus and plus its bound. Several threads may fill slices at once; one core with AVX-512 takes about 2 ns
/// per element.
void initialize_slice(const ParameterTensor& tensor, TensorId id, std::uint64_t seed, std::int64_t first_element,
                      std::span<float> out);

/// Computes the values of ModelParts::constants[number].
std::vector<float> constant_values(const ModelParts& model, std::int32_t number);

}  // namespace tessera
