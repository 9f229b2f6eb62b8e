#include <catch2/catch.hpp>
#include <cstring>

#include "comm/mpi/process_memory.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

/// Splits a token into "/proc/PID/fd/N" and the file's identity.
std::pair<std::string, std::string> parts(const std::string& token) {
  const auto space = token.find(' ');
  REQUIRE(space != std::string::npos);
  return {token.substr(0, space), token.substr(space)};
}

}  // namespace

TEST_CASE("a peer sees what the owner writes") {
  ProcessMemory memory;
  const auto offer = memory.create(8192);
  std::memset(offer.memory->data(), 7, 8192);
  const auto seen = memory.open(offer.token, 8192, false);
  REQUIRE(std::memcmp(seen->data(), offer.memory->data(), 8192) == 0);
}

// In containers with their own process numbers, a process may find its own files under a peer's path.
TEST_CASE("another file than the peer's is refused") {
  ProcessMemory memory;
  const auto mine = memory.create(8192), peers = memory.create(8192), smaller = memory.create(4096);
  const auto [path, own] = parts(mine.token);
  for (const std::string& token : {path + parts(peers.token).second, path + parts(smaller.token).second,
                                   "/proc/self/exe" + parts(peers.token).second}) {
    REQUIRE_THROWS_AS(memory.open(token, 8192, false), CommunicationError);
    REQUIRE_THROWS_WITH(memory.open(token, 8192, false),
                        Contains("cannot open the memory of a peer") && Contains("another file"));
  }
}
