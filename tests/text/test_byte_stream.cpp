#include <random>

#include "text/byte_stream.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

std::string read_all(const std::filesystem::path& path, std::size_t step = 1000) {
  const auto list = examined(path.string());
  const auto bytes = open_bytes(list.files.at(0));
  std::string all, block(step, '\0');
  while (const std::size_t got = bytes->read(block.data(), block.size())) all.append(block, 0, got);
  REQUIRE(bytes->taken() == list.files.at(0).state.size);
  return all;
}

/// Text that compresses a little, longer than a reader's block.
std::string long_text() {
  std::mt19937 draw(7);
  std::string text;
  while (text.size() < 900'000) text += static_cast<char>('a' + draw() % 20);
  return text;
}

}  // namespace

TEST_CASE("Files are read plain, from gzip and from zstd, of one part or several") {
  const TemporaryFolder folder;
  const std::string text = long_text(), more = "more\n";
  CHECK(read_all(folder.write("a.txt", text)) == text);
  CHECK(read_all(folder.write("a.txt.gz", gzipped(text))) == text);
  CHECK(read_all(folder.write("a.txt.zst", zstd_compressed(text))) == text);
  CHECK(read_all(folder.write("b.txt.gz", gzipped(text) + gzipped("") + gzipped(more)), 7777) == text + more);
  CHECK(read_all(folder.write("b.txt.zst", zstd_compressed(text) + zstd_compressed("") + zstd_compressed(more))) ==
        text + more);
  CHECK(read_all(folder.write("e.txt.gz", gzipped(""))).empty());
  CHECK(read_all(folder.write("e.txt.zst", zstd_compressed(""))).empty());
}

TEST_CASE("Compressed files that end early or hold something else are refused by name") {
  const TemporaryFolder folder;
  const std::string text = long_text();
  for (const auto& [name, whole] :
       {std::pair{"x.txt.gz", gzipped(text)}, std::pair{"x.txt.zst", zstd_compressed(text)}}) {
    CAPTURE(name);
    for (const std::size_t cut :
         {std::size_t{1}, std::size_t{5}, std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
      CAPTURE(cut);
      const auto file = folder.write(name, whole.substr(0, cut));
      CHECK_THAT(error_of([&] { read_all(file); }), Contains(name) && Contains("truncated"));
    }
    std::string damaged = whole;
    for (std::size_t i = whole.size() / 2; i < whole.size() / 2 + 50; ++i) damaged[i] = static_cast<char>(~damaged[i]);
    CHECK_THAT(error_of([&] { read_all(folder.write(name, damaged)); }), Contains(name));
    CHECK_THAT(error_of([&] { read_all(folder.write(name, "plain text, not compressed")); }),
               Contains(name) && Contains("or a damaged one"));
  }
  CHECK_THAT(error_of([&] { read_all(folder.write("x.txt.zst", zstd_compressed(text) + "rubbish")); }),
             Contains("x.txt.zst"));
}

TEST_CASE("What follows the end of gzip's data is padding, another member, or left out with a note") {
  const TemporaryFolder folder;
  std::mt19937 draw(11);
  const auto drawn = [&](std::size_t most) {
    std::string text(draw() % most, ' ');
    for (char& c : text) c = static_cast<char>('a' + draw() % 26);
    return text;
  };
  for (int round = 0; round < 25; ++round) {
    std::string file, text, note;
    for (std::size_t member = 0; member < 1 + draw() % 3; ++member) {
      const std::string part = drawn(member == 0 ? 300'000 : 2000);
      text += part;
      file += gzipped(part) + std::string(draw() % 3 == 0 ? draw() % 700 : 0, '\0');
    }
    if (draw() % 2 == 0) {
      const std::string garbage = "g" + drawn(600'000) + std::string(draw() % 5, '\x1f');
      file += garbage;
      note = fmt::format("{} byte{} after the end of its gzip data are left out", garbage.size(),
                         garbage.size() == 1 ? "" : "s");
    }
    const auto list = examined(folder.write("x.txt.gz", file).string());
    const auto bytes = open_bytes(list.files.at(0));
    std::string all, block(1 + draw() % 5000, '\0');
    while (const std::size_t got = bytes->read(block.data(), block.size())) all.append(block, 0, got);
    REQUIRE(all == text);
    REQUIRE(bytes->note() == note);
    REQUIRE(bytes->taken() == std::ssize(file));
  }
}

TEST_CASE("A window of zstd's may be as long as it can be") {
  const TemporaryFolder folder;
  for (const int window : {27, 28, 31}) {
    // By hand, because compressing would need the memory of the window: a frame of one raw block.
    const std::string part = long_text().substr(0, 1000);
    std::string frame = "\x28\xb5\x2f\xfd";
    frame += '\0';                                                         // no size, no checksum
    frame += static_cast<char>((window - 10) << 3);                        // the window
    const auto header = static_cast<std::uint32_t>(1 | part.size() << 3);  // the last block, raw
    for (int byte = 0; byte < 3; ++byte) frame += static_cast<char>(header >> (8 * byte));
    CHECK(read_all(folder.write("x.txt.zst", frame + part)) == part);
  }
}

TEST_CASE("A file that changes while it is read is an error") {
  const TemporaryFolder folder;
  const auto read = [&](const std::function<void(const std::filesystem::path&)>& change) {
    const auto file = folder.write("a.txt", long_text());
    const auto list = examined(file.string());
    return error_of<IoError>([&] {
      const auto bytes = open_bytes(list.files[0]);
      std::string block(1000, '\0');
      bytes->read(block.data(), block.size());
      change(file);
      while (bytes->read(block.data(), block.size()) > 0) continue;
    });
  };
  CHECK(read([](const auto&) {}).empty());
  CHECK_THAT(read([](const auto& file) { std::filesystem::resize_file(file, 5000); }), Contains("changed while"));
  CHECK_THAT(read([](const auto& file) { std::ofstream(file, std::ios::app) << "more"; }), Contains("changed while"));
  CHECK_THAT(read([](const auto& file) { std::filesystem::last_write_time(file, {}); }), Contains("changed while"));
}
