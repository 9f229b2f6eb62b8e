#pragma once
// "Did you mean": the name that an unknown one most likely stands for.

#include <span>
#include <string_view>

namespace tessera {

/// Returns the name closest to `unknown`, which is the one with the fewest mistakes: letters to insert, delete, replace
/// or swap with a neighbour. Empty where every name has more mistakes than a third of the letters, and more than two.
std::string_view closest(std::string_view unknown, std::span<const std::string_view> names);

}  // namespace tessera
