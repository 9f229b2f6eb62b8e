// Shards of many blocks: writes past the page cache contain the source's elements, and failures end the writing.
#include <fcntl.h>

#include <cerrno>

#include "checkpoint/block_file.hpp"
#include "checkpoint/block_pipeline.hpp"
#include "checkpoint_case.hpp"
#include "file_spy.hpp"
#include "refused_threads.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// 26 blocks and a bit in three datasets: more than the pipeline has slots, and a last block of an odd length.
const std::vector<TensorRecord> kTensors{{"long", {2300003}, 2300003}};
const std::vector<ElementRun> kRuns{{0, 0, 2300003}};

float value_of(StateKind kind, std::int64_t element) {
  return static_cast<float>(element) + 0.25F * static_cast<float>(kind);
}

}  // namespace

TEST_CASE("every block of a long shard is written, with its own checksum") {
  const TemporaryFolder folder;
  const FileRecord record =
      write_shard(folder.path(), 0, kTensors, kRuns, [](StateKind kind, std::int64_t first, std::span<float> out) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = value_of(kind, first + static_cast<std::int64_t>(i));
      });
  const auto path = folder.path() / record.name;
  REQUIRE(std::filesystem::file_size(path) == static_cast<std::uintmax_t>(record.bytes));
  REQUIRE(record.bytes % record.block_bytes % 4096 != 0);
  REQUIRE(record_of(path).blocks == record.blocks);
  const std::string bytes = read_file(path);
  for (const StateKind kind : kinds_of(StateContent::full)) {
    for (std::int64_t i = 0; i < record.elements(); ++i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + record.offsets[static_cast<std::size_t>(kind)] + 4 * i, sizeof value);
      if (value != value_of(kind, i)) FAIL(name_of(kind) << " " << i << " is " << value);
    }
  }
}

TEST_CASE("a shard goes past the page cache where that is wanted, can be and is not slow") {
  const TemporaryFolder folder;
  write_file(folder / "probe", "");
  if (!open_direct(folder / "probe")) {
    WARN("the temporary folder's file system has no O_DIRECT");
    return;
  }
  const auto direct_writes = [&](Tristate direct, bool is_slow) {
    file_spy::start();
    if (is_slow) file_spy::rule("pwrite", " direct", file_spy::kDelays);
    const auto source = [](StateKind kind, std::int64_t first, std::span<float> out) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = value_of(kind, first + static_cast<std::int64_t>(i));
    };
    std::filesystem::remove(folder / shard_name(0));
    const FileRecord record = write_shard(folder.path(), 0, kTensors, kRuns, source, run_hdf5_here, direct);
    const auto calls = file_spy::stop();
    CHECK(record_of(folder / record.name).blocks == record.blocks);
    return std::ranges::count_if(calls, [](const std::string& call) { return call.ends_with(" direct"); });
  };
  const auto all_blocks = 26;
  CHECK(direct_writes(Tristate::yes, false) == all_blocks);
  CHECK(direct_writes(Tristate::no, false) == 0);
  CHECK(direct_writes(Tristate::yes, true) == all_blocks);
  const auto trials = direct_writes(Tristate::automatic, true);
  CHECK(trials >= 4);
  CHECK(trials <= 4 + 1);  // one that the other thread had begun
}

TEST_CASE("a shard that has to go past the page cache and cannot is refused") {
  const TemporaryFolder folder;
  file_spy::start();
  file_spy::rule("open", "shard-00000.h5 direct", EINVAL);
  const auto message = message_of<IoError>([&] {
    write_shard(
        folder.path(), 0, kTensors, kRuns, [](StateKind, std::int64_t, std::span<float>) {}, run_hdf5_here,
        Tristate::yes);
  });
  file_spy::stop();
  CHECK(message.find("checkpoint.direct = auto or false") != std::string::npos);
}

TEST_CASE("a source that fails ends the writing") {
  const TemporaryFolder folder;
  const auto source = [](StateKind kind, std::int64_t, std::span<float>) {
    if (kind == StateKind::second_moment) throw CommunicationError("gone");
  };
  REQUIRE_THROWS_AS(write_shard(folder.path(), 0, kTensors, kRuns, source), CommunicationError);
}

TEST_CASE("a write that fails reaches the caller, however many blocks are on their way") {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file(path, "");
  FileRecord record;
  record.block_bytes = kBlockBytes;
  record.bytes = 40 * kBlockBytes;
  // Looks like a file system without O_DIRECT, and a descriptor that refuses to be written.
  const FileDescriptor file = open_file(path, OpenFor::reading);
  std::filesystem::remove(path);
  BlockPipeline pipeline(file, path, record);
  const std::string message = message_of<IoError>([&] {
    for (int block = 0; block < 40; ++block) {
      std::fill_n(pipeline.begin(), kBlockBytes, std::byte{1});
      pipeline.submit();
    }
    pipeline.finish();
  });
  REQUIRE(message.find("cannot write") != std::string::npos);
}

TEST_CASE("tasks for more threads than the system starts are done by those that it does") {
  for (const int there : {0, 2}) {
    const OnlyThreads limit(there);
    std::vector<std::atomic<int>> done(100);
    std::atomic<bool> in_range{true};
    on_threads(100, 8, [&](std::int64_t task, int thread) {
      done[static_cast<std::size_t>(task)].fetch_add(1);
      if (thread > there) in_range = false;
    });
    for (const auto& count : done) REQUIRE(count == 1);
    REQUIRE(in_range);
  }
}

TEST_CASE("a pipeline whose second thread cannot be started is an error") {
  const TemporaryFolder folder;
  const OnlyThreads limit(1);
  REQUIRE_THROWS_WITH(write_shard(folder.path(), 0, kTensors, kRuns, [](StateKind, std::int64_t, std::span<float>) {}),
                      Catch::Contains("cannot start the thread 'block writer'"));
}
