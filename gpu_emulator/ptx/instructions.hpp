#pragma once
// The tables of instructions, a subject each; find_instruction looks through all of them.

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "gpu_emulator/ptx/module.hpp"

namespace ptx {

using Table = std::unordered_map<std::string, Spec>;
void add_arithmetic(Table& table);
void add_conversions(Table& table);
void add_memory(Table& table);
void add_warp_operations(Table& table);

/// A lane's value of type T (float, double or an integer type).
template <class T>
T get(const Row& row, int lane) {
  const std::uint64_t bits = row[static_cast<std::size_t>(lane)];
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

template <class T>
void set(Row& row, int lane, T value) {
  std::uint64_t& bits = row[static_cast<std::size_t>(lane)];
  if constexpr (std::is_same_v<T, float>) {
    bits = std::bit_cast<std::uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    bits = std::bit_cast<std::uint64_t>(value);
  } else {
    bits = static_cast<std::uint64_t>(value);
  }
}

template <class F>
void each(Mask lanes, F f) {
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) f(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
}

}  // namespace ptx
