#include <catch2/catch.hpp>

#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/mapped_file.hpp"

using namespace tessera;
using Catch::Contains;
using tessera::testing::TemporaryFolder;

namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("A mapped file is its bytes, and goes from owner to owner") {
  const TemporaryFolder folder;
  const std::string content = std::string(5000, 'x') + std::string("\0end", 4);
  MappedFile first(folder.write("a", content));
  CHECK(text_of(first.bytes()) == content);
  MappedFile second(std::move(first));
  CHECK(text_of(second.bytes()) == content);
  MappedFile third(folder.write("b", "other"));
  third = std::move(second);
  CHECK(text_of(third.bytes()) == content);
  std::filesystem::remove(folder / "a");
  CHECK(text_of(third.bytes()) == content);  // a mapping stays, whatever becomes of the name
  CHECK(MappedFile(folder.write("empty", "")).bytes().empty());
  CHECK(MappedFile().bytes().empty());
}

TEST_CASE("A file that cannot be mapped is named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(MappedFile(folder / "none"), Contains((folder / "none").string()) && Contains("No such file"));
  CHECK_THROWS_AS(MappedFile(folder.path()), IoError);
}

TEST_CASE("Any range of a file is read without mapping it") {
  const TemporaryFolder folder;
  const auto file = folder.write("digits", "0123456789");
  for (std::int64_t first = 0; first <= 10; ++first) {
    for (std::size_t count = 0; first + static_cast<std::int64_t>(count) <= 10; ++count) {
      std::vector<std::byte> out(count);
      read_at(file, first, out);
      CHECK(text_of(out) == std::string("0123456789").substr(static_cast<std::size_t>(first), count));
    }
  }
  std::vector<std::byte> more(4);
  CHECK_THROWS_WITH(read_at(file, 8, more), Contains("digits") && Contains("ended 2 bytes too early"));
  CHECK_THROWS_AS(read_at(folder / "none", 0, more), IoError);
}
