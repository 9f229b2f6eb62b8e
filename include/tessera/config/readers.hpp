#pragma once
// The readers of options. Every option's row holds a set of them; a command's row says which of them it is.

#include <cstdint>
#include <string_view>

namespace tessera {

/// A set of readers, as bits.
enum class Readers : std::uint32_t {
  none = 0,
  train = 1 << 0,
  plan = 1 << 1,
  bench = 1 << 2,           ///< every bench
  bench_messages = 1 << 3,  ///< the bench that sends messages of several sizes
  bench_tables = 1 << 4,    ///< those that can write their tables to a file
  sweep = 1 << 5,
  generate = 1 << 6,
  eval = 1 << 7,
  data = 1 << 8,
  export_ = 1 << 9
};

constexpr Readers operator|(Readers a, Readers b) {
  return static_cast<Readers>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
/// Returns whether two sets have a reader in common.
constexpr bool overlap(Readers a, Readers b) {
  return (static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b)) != 0;
}

/// Returns whether any of `readers` reads an option ("shard.wrap"). False if there is no such option; true if only
/// earlier versions have it, which every reader drops.
bool read_option(Readers readers, std::string_view option);

}  // namespace tessera
