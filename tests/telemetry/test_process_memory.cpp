#include <catch2/catch.hpp>
#include <cstring>
#include <sstream>

#include "tessera/backend/region.hpp"
#include "tessera/base/error.hpp"
#include "tessera/telemetry/process_memory.hpp"

using namespace tessera;

TEST_CASE("resident bytes are those of the pages that were touched") {
  constexpr std::size_t page = 4096;
  const Region region(64 * page);  // too small for huge pages
  CHECK(measured_bytes(region.bytes()) == 0);
  for (const std::size_t touched : {3, 4, 40}) region.data()[touched * page + 17] = std::byte{1};
  CHECK(measured_bytes(region.bytes()) == 3 * page);
  // A range that begins and ends inside pages counts its own bytes of them.
  CHECK(measured_bytes(region.bytes().subspan(3 * page + 100, 2 * page)) == 2 * page - 100);
  CHECK(measured_bytes(region.bytes().subspan(40 * page + 5, 7)) == 7);
  CHECK(measured_bytes(region.bytes().subspan(41 * page, page)) == 0);
  CHECK(measured_bytes({}) == 0);
  const auto* const nowhere = reinterpret_cast<const std::byte*>(page);  // not mapped
  CHECK(measured_bytes({nowhere, page}) == -1);
}

TEST_CASE("mappings of a process are counted by what they map") {
  std::istringstream mappings(
      "55d0c000-55d0d000 r-xp 00000000 08:01 1234                       /usr/bin/tessera\n"
      "Size:                  4 kB\nPss:                   4 kB\nPss_Anon:              0 kB\n"
      "7f00a000-7f00b000 r--p 00001000 08:01 99                         /usr/lib/a name.so.1\nPss:  3 kB\n"
      "7f10a000-7f10b000 rw-p 00000000 00:00 0\nPss:                  20 kB\n"
      "7f11a000-7f11b000 rw-p 00000000 00:00 0                          [heap]\nPss:  7 kB\n"
      "7f12a000-7f12b000 rw-s 00000000 00:01 7                          /memfd:tessera (deleted)\nPss:  100 kB\n"
      "7f13a000-7f13b000 rw-s 00000000 00:1a 8                          /dev/shm/vader_segment.1\nPss:  50 kB\n"
      "VmFlags: rd ex\n");
  const MappingBytes memory = mapping_bytes(mappings);
  CHECK(memory.files == 7 * 1024);
  CHECK(memory.heap == 7 * 1024);
  CHECK(memory.other == 20 * 1024);
  CHECK(memory.shared == 150 * 1024);
  CHECK(memory.total == 184 * 1024);
  std::istringstream wrong("Pss: 4 kB\n");
  CHECK_THROWS_AS(mapping_bytes(wrong), IoError);
}

TEST_CASE("the memory of this process grows by what it touches") {
  const MappingBytes before = mapping_bytes();
  CHECK(before.total == before.files + before.shared + before.heap + before.other);
  CHECK(before.files > 0);
  constexpr std::int64_t kMiB = 1 << 20;
  const Region region(8 * kMiB);
  std::memset(region.data(), 1, 8 * kMiB);
  const MappingBytes after = mapping_bytes();
  CHECK(after.other - before.other >= 8 * kMiB);
  CHECK(after.other - before.other < 9 * kMiB);
}
