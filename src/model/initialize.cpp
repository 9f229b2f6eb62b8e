#include "tessera/model/initialize.hpp"

#include <algorithm>

#include "tessera/base/counter_rng.hpp"

namespace tessera {

void initialize_slice(const ParameterTensor& tensor, TensorId id, std::uint64_t seed, std::int64_t first_element,
                      std::span<float> out) {
  TESSERA_ASSERT(first_element >= 0 && first_element + static_cast<std::int64_t>(out.size()) <= tensor.elements,
                 "{}: elements {} to {} of {}", tensor.name, first_element,
                 first_element + static_cast<std::int64_t>(out.size()), tensor.elements);
  if (tensor.initialization == Initialization::uniform) {
    std::vector<std::uint32_t> words(out.size());
    fill_words(seed, RandomUse::initialization, static_cast<std::uint32_t>(id.number()),
               static_cast<std::uint64_t>(first_element), words);
    const auto bound = static_cast<float>(tensor.bound);
    std::ranges::transform(words, out.begin(), [&](std::uint32_t w) { return (2 * to_uniform(w) - 1) * bound; });
    return;
  }
  if (tensor.initialization != Initialization::normal)
    return std::fill(out.begin(), out.end(), tensor.initialization == Initialization::one ? 1.0f : 0.0f);
  fill_normals(seed, static_cast<std::uint32_t>(id.number()), static_cast<std::uint64_t>(first_element),
               static_cast<float>(tensor.standard_deviation), out);
}

std::vector<float> constant_values(const ModelParts& model, std::int32_t number) {
  const ConstantTensor& c = model.constants.at(static_cast<std::size_t>(number));
  return rotary_values(c.angles, c.elements / c.angles.width);
}

}  // namespace tessera
