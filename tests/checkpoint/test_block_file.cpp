#include <atomic>

#include "checkpoint/block_file.hpp"
#include "file_support.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("a file's record has its size and one checksum a block, the last one of what is left") {
  const TemporaryFolder folder;
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1, 2 * kBlockBytes + 12345}) {
    CAPTURE(bytes);
    std::string content(static_cast<std::size_t>(bytes), '\0');
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i >> 7);
    const auto path = folder.write("file", content);
    const FileRecord record = record_of(path);
    CHECK(record.name == "file");
    CHECK(record.bytes == bytes);
    REQUIRE(static_cast<std::int64_t>(record.blocks.size()) == (bytes + kBlockBytes - 1) / kBlockBytes);
    const FileDescriptor file = open_file(path, OpenFor::reading);
    std::string read;
    std::vector<std::byte> block(static_cast<std::size_t>(kBlockBytes));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(record.blocks.size()); ++i) {
      read_block(file, path, record, i, block.data());
      read.append(reinterpret_cast<const char*>(block.data()), static_cast<std::size_t>(bytes_in_block(record, i)));
    }
    CHECK((read == content));
  }
}

TEST_CASE("a damaged block is named with its bytes, the others are read") {
  const TemporaryFolder folder;
  const auto path = folder.write("file", std::string(static_cast<std::size_t>(kBlockBytes + 10), 'a'));
  const FileRecord record = record_of(path);
  const FileDescriptor file = open_file(path, OpenFor::writing);
  write_at(file, path, kBlockBytes + 9, "b", 1);
  std::vector<std::byte> block(static_cast<std::size_t>(kBlockBytes));
  read_block(file, path, record, 0, block.data());
  CHECK_THAT(message_of<IoError>([&] { read_block(file, path, record, 1, block.data()); }),
             Contains(path.string()) && Contains("bytes 1048576 to 1048585"));
  std::filesystem::resize_file(path, 100);
  CHECK_THAT(message_of<IoError>([&] { read_block(file, path, record, 0, block.data()); }), Contains("ends early"));
}

TEST_CASE("every task is done once, by threads with numbers of their own") {
  for (const int threads : {1, 2, 7}) {
    for (const std::int64_t tasks : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<std::size_t>(tasks));
      std::atomic<bool> strange = false;
      on_threads(tasks, threads, [&](std::int64_t i, int thread) {
        ++done[static_cast<std::size_t>(i)];
        if (thread < 0 || thread >= threads) strange = true;
      });
      CHECK_FALSE(strange);
      CHECK(std::ranges::all_of(done, [](const auto& times) { return times == 1; }));
    }
  }
  std::atomic<int> begun = 0;
  CHECK_THAT(message_of<IoError>([&] {
               on_threads(1'000'000, 3, [&](std::int64_t i, int) {
                 ++begun;
                 if (i == 10) throw IoError("task {}", i);
               });
             }),
             Contains("task 10"));
  CHECK(begun < 1'000'000);  // the others stop soon
}
