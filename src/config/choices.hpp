#pragma once
// The values of each enum option with their spelling: the one list behind parsing, writing and help.

#include <span>
#include <string_view>

#include "tessera/config/enums.hpp"

namespace tessera {

template <class E>
struct Choice {
  E value;
  std::string_view name;
};

/// All values of E that an option offers, in the order of the help text. Specialised in choices.cpp.
template <class E>
std::span<const Choice<E>> choices();

}  // namespace tessera
