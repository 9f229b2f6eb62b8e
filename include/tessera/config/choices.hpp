#pragma once
// The values of each enum option with their spelling: the one list behind parsing, writing and help.

#include <optional>
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

/// The choice that is spelled so, or nothing.
template <class E>
std::optional<E> read_choice(std::string_view name) {
  for (const auto& choice : choices<E>()) {
    if (choice.name == name) return choice.value;
  }
  return std::nullopt;
}

}  // namespace tessera
