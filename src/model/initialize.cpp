#include "tessera/model/initialize.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/counter_rng.hpp"

namespace tessera {

void initialize_slice(const ParameterTensor& tensor, TensorId id, std::uint64_t seed, std::int64_t first_element,
                      std::span<float> out) {
  TESSERA_ASSERT(first_element >= 0 && first_element + static_cast<std::int64_t>(out.size()) <= tensor.elements,
                 "{}: elements {} to {} of {}", tensor.name, first_element,
                 first_element + static_cast<std::int64_t>(out.size()), tensor.elements);
  switch (tensor.initialization) {
    case Initialization::zero:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case Initialization::one:
      std::fill(out.begin(), out.end(), 1.0f);
      return;
    case Initialization::normal:
      break;
  }
  const auto deviation = static_cast<float>(tensor.standard_deviation);
  const auto stream = static_cast<std::uint32_t>(id.number());
  const auto end = static_cast<std::uint64_t>(first_element) + out.size();
  auto element = static_cast<std::uint64_t>(first_element);
  float* next = out.data();
  while (element < end) {
    const std::array<float, 4> block = normal_block(seed, stream, element / 4);
    for (std::uint64_t i = element % 4; i < 4 && element < end; ++i, ++element) *next++ = deviation * block[i];
  }
}

}  // namespace tessera
