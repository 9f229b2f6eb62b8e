#pragma once
// The values of each enum option, and of the words after a command, with their spelling: the one list behind parsing,
// writing and help.

#include <optional>
#include <span>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/config/enums.hpp"

namespace tessera {

template <class E>
struct Choice {
  E value;
  std::string_view name;
};

/// Returns all values of E that an option offers, in the order of the help text. Specialised in choices.cpp.
template <class E>
std::span<const Choice<E>> choices();

/// Returns the spelling of a value. InternalError for one that no option offers.
template <class E>
std::string_view spelling(E value) {
  for (const auto& choice : choices<E>()) {
    if (choice.value == value) return choice.name;
  }
  throw InternalError("a value has no spelling: no option offers it");
}

/// Returns the choice of this spelling, or nothing.
template <class E>
std::optional<E> read_choice(std::string_view name) {
  for (const auto& choice : choices<E>()) {
    if (choice.name == name) return choice.value;
  }
  return std::nullopt;
}

}  // namespace tessera
