// Checkpoint files: written data is read back, by Tessera and by h5py, whatever the shards; damage is found.
#include "checkpoint_case.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Reads random slices and compares every element.
void require_slices(const std::filesystem::path& folder, std::uint32_t seed) {
  const CheckpointReader reader(folder);
  std::mt19937 random(seed);
  std::vector<WantedRun> wanted;
  std::vector<std::vector<float>> memory;
  for (int i = 0; i < 60; ++i) {
    const auto tensor = static_cast<std::int64_t>(random() % reader.manifest().tensors.size());
    const std::int64_t elements = reader.manifest().tensors[static_cast<std::size_t>(tensor)].elements;
    const auto first = static_cast<std::int64_t>(random()) % elements;
    const auto count = 1 + static_cast<std::int64_t>(random()) % (elements - first);
    memory.emplace_back(static_cast<std::size_t>(count), -1.0F);
    wanted.push_back({kAllStateKinds[random() % 3], tensor, first, count, memory.back().data()});
  }
  reader.read(wanted, 3);
  for (const WantedRun& want : wanted) {
    for (std::int64_t i = 0; i < want.count; ++i) {
      if (want.to[i] != element_value(want.kind, want.tensor, want.first + i))
        FAIL("tensor " << want.tensor << " element " << want.first + i << " is " << want.to[i]);
    }
  }
}

}  // namespace

TEST_CASE("any slices of any shards") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  for (const std::size_t writers : {1, 2, 5, 40}) {
    INFO(writers << " writers");
    const Manifest written = write_checkpoint(folder, static_cast<std::int64_t>(writers), writers);
    const auto path = folder.of_step(static_cast<std::int64_t>(writers));
    require_slices(path, 7);
    REQUIRE(verify_checkpoint(path, 2) == std::vector<std::string>{});
    const Manifest read = read_manifest(path);
    REQUIRE(read.step == written.step);
    REQUIRE(read.tensors == written.tensors);
    REQUIRE(read.architecture == written.architecture);
    REQUIRE(read.optimizer == written.optimizer);
    REQUIRE(read.data.next_sample == written.data.next_sample);
    REQUIRE(read.data.fingerprint == written.data.fingerprint);
    REQUIRE(manifest_text(read).size() == manifest_text(written).size());
    REQUIRE(read.files.size() == writers + 1);
    for (std::size_t i = 0; i < read.files.size(); ++i) {
      REQUIRE(read.files[i].runs == written.files[i].runs);
      REQUIRE(read.files[i].blocks == written.files[i].blocks);
    }
  }
  REQUIRE(folder.steps() == std::vector<std::int64_t>{1, 2, 5, 40});
}

TEST_CASE("h5py reads shards and virtual tensors, also of a folder that was moved") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 4);
  std::filesystem::rename(folder.of_step(3), run / "elsewhere");
  REQUIRE(run_python("checkpoint/read_checkpoint.py", (run / "elsewhere").string()) == 0);
  REQUIRE(std::system(("h5dump -H '" + (run / "elsewhere/tensors.h5").string() + "' > /dev/null").c_str()) == 0);
  REQUIRE(std::system(("h5dump -d /runs '" + (run / "elsewhere/shard-00002.h5").string() + "' > /dev/null").c_str()) ==
          0);
}

TEST_CASE("a missing shard reads as NaN, never as zeros") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 2);
  std::filesystem::remove(folder.of_step(3) / "shard-00001.h5");
  REQUIRE(run_python("checkpoint/read_checkpoint.py", folder.of_step(3).string() + " shard-00001.h5") == 0);
  const std::string message = message_of<IoError>([&] { CheckpointReader reader(folder.of_step(3)); });
  REQUIRE(message.find("shard-00001.h5") != std::string::npos);
}

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
      REQUIRE(!verify_checkpoint(folder.of_step(3), 2).empty());
    }
    write_file(path, good);
  }
  REQUIRE(verify_checkpoint(folder.of_step(3), 2).empty());
}

TEST_CASE("files that are cut, too long, missing, from the future or not finite are named") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 2);
  const auto path = folder.of_step(3);
  const auto shard = path / "shard-00001.h5";
  const auto damage = [&](const std::filesystem::path& file, const std::string& text, const std::string& expected) {
    const std::string good = read_file(file);
    write_file(file, text);
    const std::string message = message_of<IoError>([&] {
      const CheckpointReader reader(path);
      std::vector<float> all(static_cast<std::size_t>(reader.manifest().tensors[2].elements));
      const WantedRun want{StateKind::parameter, 2, 0, reader.manifest().tensors[2].elements, all.data()};
      reader.read({&want, 1}, 2);
    });
    INFO(message);
    REQUIRE(message.find(expected) != std::string::npos);
    REQUIRE(!verify_checkpoint(path, 1).empty());
    write_file(file, good);
  };
  const std::string bytes = read_file(shard), manifest = read_file(path / "manifest.json");
  damage(shard, bytes.substr(0, bytes.size() - 5), "cut short");
  damage(shard, bytes + "more", "too long");
  damage(path / "manifest.json", manifest.substr(0, manifest.size() / 2), "damaged");
  damage(path / "manifest.json", "{}", "checksum");
  std::string future = manifest;
  future.replace(future.find("\"schema\": 1"), 11, "\"schema\": 2");
  damage(path / "manifest.json", future, "a newer program wrote it");
  std::filesystem::remove(path / "manifest.json");
  REQUIRE(message_of<IoError>([&] { CheckpointReader reader(path); }).find("no complete checkpoint") !=
          std::string::npos);
}

TEST_CASE("random texts in place of a manifest end in messages") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 2);
  const auto path = folder.of_step(3) / "manifest.json";
  const std::string good = read_file(path);
  Manifest manifest = read_manifest(folder.of_step(3));
  const auto refused = [&](const Manifest& m) {
    write_file(path, manifest_text(m));
    return !message_of<IoError>([&] { CheckpointReader reader(folder.of_step(3)); }).empty();
  };
  const std::int64_t huge = std::int64_t{1} << 62;
  Manifest bad = manifest;
  bad.files[0].runs[0].first = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs[0].count = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs[0].tensor = 99;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].offsets[1] = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].bytes = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].block_bytes = 0;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].name = "../shard-00000.h5";
  REQUIRE(refused(bad));
  bad = manifest, bad.tensors[0].shape = {huge, huge};
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs.pop_back();
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs.push_back(bad.files[1].runs[0]);
  REQUIRE(refused(bad));
  bad = manifest, bad.step = -1;
  REQUIRE(refused(bad));
  write_file(path, R"({"schema":1,"model":)" + std::string(100000, '[') + std::string(100000, ']') + "}");
  REQUIRE(message_of<IoError>([&] { CheckpointReader reader(folder.of_step(3)); }).find("nested") != std::string::npos);
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string text = good;
    for (int k = 0; k < 3; ++k) text[random() % text.size()] = static_cast<char>(random());
    write_file(path, text);
    REQUIRE(!message_of<IoError>([&] { CheckpointReader reader(folder.of_step(3)); }).empty());
  }
}

TEST_CASE("checkpoints come whole, go whole, and what was left unfinished goes") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  REQUIRE(folder.steps().empty());
  for (const std::int64_t step : {10, 20, 30, 40, 50}) {
    folder.begin(step);
    write_file(folder.beside(step) / "content", std::to_string(step));
    folder.publish(step, step - 10);
  }
  folder.begin(60);
  std::filesystem::create_directories(run / "checkpoints/step-7");  // not a checkpoint of Tessera
  REQUIRE(folder.steps() == std::vector<std::int64_t>{10, 20, 30, 40, 50});
  folder.begin(50);
  write_file(folder.beside(50) / "content", "again");
  folder.publish(50, 50);
  REQUIRE(read_file(folder.of_step(50) / "content") == "again");
  REQUIRE(folder.prune(2, 20, 50).empty());
  REQUIRE(!std::filesystem::exists(folder.beside(60)));
  REQUIRE(folder.steps() == std::vector<std::int64_t>{20, 30, 40, 50});
  folder.prune(0, 0, 50);
  REQUIRE(folder.steps().size() == 4);
  folder.prune(1, 0, 50);
  REQUIRE(folder.steps() == std::vector<std::int64_t>{50});
  REQUIRE(std::filesystem::exists(run / "checkpoints/step-7"));
}
