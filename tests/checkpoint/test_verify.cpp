#include "checkpoint/block_file.hpp"
#include "checkpoint_case.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// A checkpoint whose files can be changed together with what the manifest says of them.
struct Edited {
  TemporaryFolder run;
  Manifest manifest = write_checkpoint(CheckpointFolder(run / "checkpoints"), 3, 2);
  std::filesystem::path path = CheckpointFolder(run / "checkpoints").of_step(3);
  FileRecord& record(const std::string& name) { return *std::ranges::find(manifest.files, name, &FileRecord::name); }
  /// The manifest, with right sizes and checksums of a file.
  void seal(const std::string& name) {
    const FileRecord now = record_of(path / name);
    record(name).bytes = now.bytes, record(name).blocks = now.blocks;
    write_file(path / std::string(kManifestName), manifest_text(manifest));
  }
  std::vector<std::string> problems(std::size_t limit = 100) const { return verify_checkpoint(path, 2, limit); }
};

}  // namespace

TEST_CASE("one flipped bit anywhere is found") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 2);
  std::mt19937 random(5);
  for (const std::string name : {"shard-00000.h5", "shard-00001.h5", "tensors.h5", "manifest.json"}) {
    const auto path = folder.of_step(3) / name;
    const std::string good = read_file(path);
    for (int i = 0; i < 12; ++i) {
      std::string bad = good;
      // The first bytes hold HDF5's own tables, the rest is elements.
      const std::size_t at = random() % (i % 2 == 0 ? bad.size() : std::min<std::size_t>(bad.size(), 2000));
      bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8)));
      write_file(path, bad);
      INFO(name << " byte " << at);
      const bool is_needed = name != kVirtualName;
      REQUIRE(verify_checkpoint(folder.of_step(3), 2).empty() == !is_needed);
      if (!is_needed) REQUIRE_THAT(index_defect(folder.of_step(3)), Contains(name));
    }
    write_file(path, good);
  }
  REQUIRE(verify_checkpoint(folder.of_step(3), 2).empty());
  REQUIRE(index_defect(folder.of_step(3)).empty());
}

TEST_CASE("an element that is not finite is named with its tensor and kind") {
  Edited edited;
  const std::string name = "shard-00001.h5";
  const FileRecord& record = edited.record(name);
  const ElementRun run = record.runs[1];
  const std::int64_t element = record.runs[0].count + run.count / 2;
  const float bad = std::numeric_limits<float>::quiet_NaN();
  const FileDescriptor file = open_file(edited.path / name, OpenFor::writing);
  write_at(file, name, record.offsets[1] + 4 * element, &bad, 4);
  edited.seal(name);
  const auto problems = edited.problems();
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems[0], Contains(name) && Contains(std::string(name_of(StateKind::first_moment))) &&
                              Contains("element " + std::to_string(run.first + run.count / 2) + " of " +
                                       edited.manifest.tensors[static_cast<std::size_t>(run.tensor)].name + " is nan"));
}

TEST_CASE("what a manifest says of a shard's inside is compared with the shard") {
  Edited edited;
  const std::string name = "shard-00000.h5";
  auto& runs = edited.record(name).runs;
  REQUIRE(runs.size() > 1);
  std::swap(runs[0], runs[1]);
  edited.seal(name);
  auto problems = edited.problems();
  REQUIRE(!problems.empty());
  CHECK_THAT(problems[0], Contains(name) && Contains("its runs are not those of the manifest"));
  std::swap(runs[0], runs[1]);
  auto& offsets = edited.record(name).offsets;
  std::swap(offsets[0], offsets[2]);
  edited.seal(name);
  problems = edited.problems();
  REQUIRE(!problems.empty());
  CHECK_THAT(problems[0], Contains(name) && Contains("not where the manifest says"));
}

TEST_CASE("virtual tensors are compared with the shards, and may be missing if none are listed") {
  Edited edited;
  const std::string name(kVirtualName);
  // Those of a checkpoint whose shards have the same elements in another order.
  std::vector<FileRecord> files = edited.manifest.files;
  std::erase_if(files, [](const FileRecord& file) { return !file.is_shard(); });
  const ElementRun run = files[0].runs[0];
  files[0].runs[0] = {run.tensor, run.first + run.count / 2, run.count - run.count / 2};
  files[0].runs.insert(files[0].runs.begin() + 1, {run.tensor, run.first, run.count / 2});
  std::filesystem::remove(edited.path / name);
  write_virtual_tensors(edited.path, edited.manifest.tensors, files);
  edited.seal(name);
  CHECK_THAT(index_defect(edited.path), Contains(name) && Contains("a shard says"));
  std::filesystem::remove(edited.path / name);
  CHECK_THAT(index_defect(edited.path), Contains(name));
  CHECK(edited.problems().empty());
  std::erase_if(edited.manifest.files, [](const FileRecord& file) { return !file.is_shard(); });
  edited.seal("shard-00000.h5");
  CHECK(index_defect(edited.path).empty());
}

TEST_CASE("no more problems are told than were asked for") {
  Edited edited;
  std::filesystem::remove(edited.path / "shard-00000.h5");
  write_file(edited.path / "shard-00001.h5", "short");
  const auto problems = edited.problems();
  REQUIRE(problems.size() == 2);
  CHECK_THAT(problems[0], Contains("shard-00000.h5"));
  CHECK_THAT(problems[1], Contains("shard-00001.h5 has 5 bytes"));
  CHECK(edited.problems(1) == std::vector<std::string>{problems[0]});
  std::filesystem::remove(edited.path / "manifest.json");
  CHECK_THAT(edited.problems().at(0), Contains("is not a complete checkpoint"));
}

TEST_CASE("weights alone are checked as well, and are a third of the bytes") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  const auto bytes = [](const Manifest& manifest) {
    std::int64_t sum = 0;
    for (const FileRecord& file : manifest.files) sum += file.is_shard() ? file.bytes : 0;
    return sum;
  };
  const std::int64_t full = bytes(write_checkpoint(folder, 3, 2));
  const std::int64_t weights = bytes(write_checkpoint(folder, 4, 2, 1, StateContent::weights));
  const auto path = folder.of_step(4);
  REQUIRE(verify_checkpoint(path, 2).empty());
  std::int64_t elements = 0;
  for (const TensorRecord& tensor : some_tensors()) elements += tensor.elements;
  CHECK(full - weights >= 8 * elements);
  CHECK(full - weights < 8 * elements + 10'000);
  std::string bad = read_file(path / "shard-00001.h5");
  bad[bad.size() - 5] = static_cast<char>(bad[bad.size() - 5] ^ 1);
  write_file(path / "shard-00001.h5", bad);
  CHECK_THAT(verify_checkpoint(path, 2).at(0), Contains("shard-00001.h5 is damaged"));
}
