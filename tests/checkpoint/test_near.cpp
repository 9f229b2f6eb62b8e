// The copy of a checkpoint's shards near their readers: who may see it, when it has its name, when it is read.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "checkpoint_case.hpp"
#include "file_spy.hpp"
#include "tessera/checkpoint/near.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// A checkpoint of three shards at step 3, and its copy near.
struct NearCase {
  TemporaryFolder run;
  std::filesystem::path near = near_folder(run / "near", run / "checkpoints");
  CheckpointFolder folder{run / "checkpoints"};
  Manifest manifest = write_checkpoint(folder, 3, 3);

  NearCase() {
    for (const FileRecord& file : manifest.files) {
      const std::string bytes = read_file(folder.of_step(3) / file.name);
      NearFile copy(near, 3, file.name);
      copy.write(0, bytes.data(), std::ssize(bytes));
      REQUIRE(copy.finish().empty());
    }
  }
  std::filesystem::path disk(std::size_t file) const { return folder.of_step(3) / manifest.files[file].name; }
  std::filesystem::path copy(std::size_t file) const { return near / "step-00000003" / manifest.files[file].name; }

  /// Reads every element and compares it.
  ReadReport read() const {
    const CheckpointReader reader(folder.of_step(3), manifest, {}, near);
    std::vector<std::vector<float>> memory;
    std::vector<WantedRun> wanted;
    for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
      const std::int64_t elements = manifest.tensors[t].elements;
      memory.emplace_back(static_cast<std::size_t>(elements), -1.0F);
      wanted.push_back({StateKind::parameter, static_cast<std::int64_t>(t), 0, elements, memory.back().data()});
    }
    ReadReport report = reader.read(wanted, 3);
    for (const WantedRun& want : wanted) {
      for (std::int64_t i = 0; i < want.count; ++i) {
        if (static_cast<const float*>(want.to)[i] != element_value(want.kind, want.tensor, i))
          FAIL("tensor " << want.tensor << " element " << i);
      }
    }
    return report;
  }
};

void flip_byte(const std::filesystem::path& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 3] ^= 1;
  write_file(path, bytes);
}

unsigned rights(const std::filesystem::path& path) {
  return static_cast<unsigned>(std::filesystem::status(path).permissions());
}

}  // namespace

TEST_CASE("a copy's folder is named by the real path of the run") {
  const TemporaryFolder place;
  std::filesystem::create_directories(place / "run/checkpoints");
  std::filesystem::create_directory_symlink(place / "run", place / "link");
  const auto mine = near_folder("auto", place / "run/checkpoints");
  CHECK(mine.parent_path() == "/dev/shm");
  CHECK(near_folder("auto", place / "link/checkpoints") == mine);
  CHECK(near_folder("auto", std::filesystem::relative(place / "run/checkpoints")) == mine);
  CHECK(near_folder("auto", place / "other/checkpoints") != mine);
  CHECK(near_folder("/scratch", place / "run/checkpoints") == "/scratch" / mine.filename());
  CHECK(near_folder("none", place / "run/checkpoints").empty());
}

TEST_CASE("a copy is this user's alone, and has its name when it is complete") {
  const TemporaryFolder place;
  const auto near = place / "disk/near", step = near / "step-00000007";
  {
    NearFile file(near, 7, "shard-00000.h5");
    file.write(3, "def", 3);
    file.write(0, "abc", 3);
    CHECK(!std::filesystem::exists(step / "shard-00000.h5"));
    CHECK(file.finish().empty());
    NearFile(near, 7, "shard-00001.h5").write(0, "abc", 3);  // given up
  }
  CHECK(read_file(step / "shard-00000.h5") == "abcdef");
  CHECK(std::distance(std::filesystem::directory_iterator(step), {}) == 1);
  CHECK((rights(near) == 0700 && rights(step) == 0700 && rights(step / "shard-00000.h5") == 0600));
  CHECK(near_step(near, 7) == step);
  CHECK(near_step(near, 8).empty());
}

TEST_CASE("a folder that others may change, or that a link leads to, is neither written, read nor deleted") {
  const TemporaryFolder place;
  const auto open = place / "open", link = place / "link";
  NearFile(open, 7, "a").finish();
  std::filesystem::create_directory_symlink(open, link);
  const auto refused = [&](const std::filesystem::path& near) {
    CHECK_THAT(NearFile(near, 7, "b").finish(), Catch::Contains(near.string() + " is not a folder of this user alone"));
    CHECK(near_step(near, 7).empty());
    prune_near(near, -1);
    CHECK(std::filesystem::exists(open / "step-00000007/a"));
  };
  refused(link);
  for (const auto rights : {std::filesystem::perms::group_write, std::filesystem::perms::others_read}) {
    std::filesystem::permissions(open, std::filesystem::perms::owner_all | rights);
    refused(open);
  }
}

TEST_CASE("a full disk near ends its file and says so") {
  const TemporaryFolder place;
  file_spy::start();
  file_spy::rule("pwrite", "shard-00000.h5.tmp", ENOSPC, 1);
  std::string failure;
  {
    NearFile file(place / "near", 7, "shard-00000.h5");
    for (std::int64_t i = 0; i < 3; ++i) file.write(i, "x", 1);
    failure = file.finish();
  }
  file_spy::stop();
  CHECK_THAT(failure, Catch::Contains("shard-00000.h5.tmp (No space left on device)"));
  CHECK(std::filesystem::is_empty(place / "near/step-00000007"));
}

TEST_CASE("all of a copy but one step is deleted, half files too") {
  const TemporaryFolder place;
  const auto near = place / "near";
  for (const std::int64_t step : {6, 7}) NearFile(near, step, "a").finish();
  write_file(near / "step-00000006/b.tmp", "half");
  prune_near(near, 7);
  CHECK(std::distance(std::filesystem::directory_iterator(near), {}) == 1);
  CHECK(std::filesystem::exists(near / "step-00000007/a"));
  prune_near(near, -1);
  CHECK(!std::filesystem::exists(near));
  prune_near(near, -1);
}

TEST_CASE("what lies near is read there, checked as on the disk; the rest is the disk's") {
  const NearCase whole;
  ReadReport report = whole.read();
  CHECK((report.bytes > 0 && report.near == report.bytes && report.damaged_near.empty()));
  // A file that is not there, or of another size, is passed over without a word.
  std::filesystem::remove(whole.copy(0));
  report = whole.read();
  CHECK((report.near > 0 && report.near < report.bytes && report.damaged_near.empty()));
  std::filesystem::resize_file(whole.copy(2), 5);
  const std::int64_t without = report.near;
  report = whole.read();
  CHECK((report.near > 0 && report.near < without && report.damaged_near.empty()));
  std::filesystem::remove_all(whole.near);
  CHECK(whole.read().near == 0);

  const NearCase lost;  // by the disk
  std::filesystem::remove(lost.disk(1));
  report = lost.read();
  CHECK(report.near == report.bytes);

  const NearCase damaged;
  flip_byte(damaged.copy(1));
  report = damaged.read();
  CHECK((report.near > 0 && report.near < report.bytes));
  CHECK_THAT(report.damaged_near, Catch::Contains(damaged.copy(1).string() + " is damaged"));
  flip_byte(damaged.disk(1));
  CHECK_THAT(message_of<IoError>([&] { damaged.read(); }), Catch::Contains(damaged.disk(1).string() + " is damaged"));
}

TEST_CASE("a shard's blocks are near as on the disk") {
  const TemporaryFolder place;
  const std::vector<TensorRecord> tensors{{"a", {700000}, 700000}};  // some blocks, the last one shorter
  NearFile near(place / "near", 7, shard_name(0));
  write_shard(
      place.path(), 0, tensors, {{0, 0, 700000}},
      [](StateKind kind, std::int64_t first, std::span<float> out) {
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] = element_value(kind, 0, first + static_cast<std::int64_t>(i));
      },
      run_hdf5_here, Tristate::automatic, StateContent::full, &near);
  REQUIRE(near.finish().empty());
  CHECK((read_file(place / "near/step-00000007/shard-00000.h5") == read_file(place / "shard-00000.h5")));
}

TEST_CASE("two checkpoints of a node are counted with the states that tensors keep") {
  std::vector<TensorRecord> tensors{{"a", {10}, 10}, {"b", {6}, 6}};
  CHECK(most_bytes_near(tensors, 2, 4) == 2 * 2 * (16 * 3 * 4 / 4));
  tensors[1].states = {true, true, false};
  CHECK(most_bytes_near(tensors, 8, 1) == 2 * (10 * 3 + 6 * 2) * 4);
}
