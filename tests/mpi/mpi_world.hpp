#pragma once
// Common parts of tests over mpiexec: the world, and assertions on which all ranks agree.

#include <catch2/catch.hpp>

#include "tessera/comm/world.hpp"

namespace tessera::test {

/// The world of this test program: started once, before the tests.
World& world();

/// Whether `condition` holds on every rank. Collective.
inline bool holds_everywhere(bool condition) { return world().control().maximum(std::int64_t{condition ? 0 : 1}) == 0; }

}  // namespace tessera::test

/// Fails on all ranks when the condition is false on one, so that no rank is left in a collective. Collective.
#define REQUIRE_ALL(...)                                                       \
  do {                                                                         \
    const bool tessera_holds = static_cast<bool>(__VA_ARGS__);                 \
    INFO("on all ranks: " #__VA_ARGS__);                                       \
    const bool tessera_all = ::tessera::test::holds_everywhere(tessera_holds); \
    CHECK(tessera_holds);                                                      \
    REQUIRE(tessera_all);                                                      \
  } while (false)
