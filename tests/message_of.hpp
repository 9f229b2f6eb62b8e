#pragma once
// What a refusal says.

#include <catch2/catch.hpp>
#include <string>

namespace tessera::test {

/// Returns the message of the exception of type E that f throws; fails the test if none or another comes.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  FAIL("no error");
  return {};
}

}  // namespace tessera::test
