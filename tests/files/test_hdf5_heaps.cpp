#include <cstring>
#include <fstream>
#include <iterator>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;

namespace {

/// A file with two texts in a heap, and a copy with a number of that heap changed.
struct HeapCase {
  HeapCase() {
    Hdf5File file = Hdf5File::create(folder / "a.h5");
    hdf5_write_attribute(file.id(), "name", std::string_view("short"));
    hdf5_write_text(file.id(), "text", std::string(999, 'x'));
    file.close();
    std::ifstream in(folder / "a.h5", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
    heap = bytes.find("GCOL");
  }
  std::filesystem::path changed(std::size_t at, std::uint64_t number) const {
    std::string other = bytes;
    std::memcpy(other.data() + heap + at, &number, sizeof number);
    std::ofstream(folder / "b.h5", std::ios::binary) << other;
    return folder / "b.h5";
  }
  std::uint64_t number(std::size_t at) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + heap + at, sizeof value);
    return value;
  }

  TemporaryFolder folder;
  std::string bytes;
  std::size_t heap = 0;
};

}  // namespace

TEST_CASE("heaps as libhdf5 writes them are right, and sizes that do not fit are found") {
  const HeapCase c;
  REQUIRE(c.heap != std::string::npos);
  CHECK_NOTHROW(check_hdf5_heaps(c.folder / "a.h5"));
  constexpr std::size_t kCollection = 8, kFirst = 16 + 8;
  const std::uint64_t whole = c.number(kCollection), first = c.number(kFirst);
  CHECK(whole == 4096);
  CHECK_NOTHROW(check_hdf5_heaps(c.changed(kFirst, first)));
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{15}, whole + (1 << 20), ~std::uint64_t{0}})
    CHECK_THROWS_WITH(check_hdf5_heaps(c.changed(kCollection, size)), Contains("b.h5 is damaged: the heap at byte "));
  for (const std::uint64_t size : {first + 8, whole, ~std::uint64_t{0}, ~std::uint64_t{14}})
    CHECK_THROWS_WITH(check_hdf5_heaps(c.changed(kFirst, size)), Contains("sizes that do not fit"));
  // Free space counts its header, so a reader that adds up zeros never ends.
  std::size_t free = 16;
  while ((c.number(free) & 0xffff) != 0) free += 16 + (c.number(free + 8) + 7) / 8 * 8;
  CHECK_THROWS_AS(check_hdf5_heaps(c.changed(free + 8, 0)), IoError);
  CHECK_THROWS_AS(check_hdf5_heaps(c.changed(free + 8, 8)), IoError);
}

TEST_CASE("a file without a heap, an empty one and one that ends in a heap") {
  const TemporaryFolder folder;
  std::ofstream(folder / "none") << "nothing";
  CHECK_NOTHROW(check_hdf5_heaps(folder / "none"));
  std::ofstream(folder / "empty");
  CHECK_NOTHROW(check_hdf5_heaps(folder / "empty"));
  std::ofstream(folder / "cut") << "xxGCOL\1";
  CHECK_THROWS_WITH(check_hdf5_heaps(folder / "cut"), Contains("at byte 2"));
}
