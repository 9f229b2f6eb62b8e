// checkpoint.keep_near: a run goes on from the copy near with the bits of the disk's checkpoint, and no trouble with
// the copy touches the run or the disk.
#include <atomic>
#include <catch2/catch.hpp>

#include "checkpoint/checkpoint_case.hpp"
#include "checkpoint_case.hpp"
#include "tessera/checkpoint/near.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// A run's folder, the folder for copies, and options that keep them there.
struct NearRun {
  RunPlace place;
  Options options = base_options();
  std::filesystem::path near;

  explicit NearRun(bool async = false, std::int64_t writers = 0) {
    options.train.steps = 6;
    options.train.micro_batch = 1;
    options.checkpoint.async = async, options.checkpoint.writers_per_node = writers;
    options.checkpoint.keep_near = (place / "near").string();
    near = near_folder(options.checkpoint.keep_near, place / "run/checkpoints");
  }
  Outcome go(const Shape& shape, std::int64_t until, const std::set<std::int64_t>& saves) const {
    return run_saving(options, shape, place / "run", until, saves);
  }
  Outcome resume(const Shape& shape, std::int64_t until, const std::set<std::int64_t>& saves = {}) const {
    return run_saving(resumed(options), shape, place / "run", until, saves);
  }
  std::filesystem::path disk(std::int64_t step) const {
    return CheckpointFolder(place / "run/checkpoints").of_step(step);
  }
  std::set<std::string> near_names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(near))
      names.insert(std::filesystem::relative(entry.path(), near).string());
    return names;
  }
};

/// Replaces every shard of a checkpoint on the disk by one that no reader takes, of the same size.
void ruin_shards(const std::filesystem::path& checkpoint) {
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    if (!entry.path().filename().string().starts_with("shard-")) continue;
    const auto bytes = std::filesystem::file_size(entry.path());
    test::write_file(entry.path(), std::string(bytes, 'x'));
  }
}

const Shape kFour{Strategy::zero3, 4, 2, 0, Wrap::block, 12};

}  // namespace

TEST_CASE("a run goes on from the copy near, to the bit, although the disk's shards were ruined") {
  for (const Shape& shape :
       {kFour, Shape{Strategy::ddp, 2, 2, 0, Wrap::model, 12}, Shape{Strategy::hsdp, 4, 2, 2, Wrap::block, 12}}) {
    for (const auto& [async, writers] : {std::pair{false, 0}, {true, 0}, {true, 1}}) {
      INFO(shape.text() << " async " << async << " writers " << writers);
      const NearRun run(async, writers);
      const Outcome whole = run.go(shape, 6, {2, 4});
      const Manifest manifest = read_manifest(run.disk(4));
      std::set<std::string> expected{"step-00000004"};
      for (const FileRecord& file : manifest.files) {
        if (!file.is_shard()) continue;
        expected.insert("step-00000004/" + file.name);
        REQUIRE((test::read_file(run.near / "step-00000004" / file.name) == test::read_file(run.disk(4) / file.name)));
      }
      REQUIRE(run.near_names() == expected);
      ruin_shards(run.disk(4));
      const Outcome rest = run.resume(shape, 6);
      REQUIRE(rest.first_step == 5);
      require_same_state(whole, rest);
      const std::string& said = rest.said.at(0);
      REQUIRE(said.find("step 4 from " + run.disk(4).string()) != std::string::npos);
      const auto in = said.rfind('('), of = said.rfind(", of it ");
      REQUIRE(said.substr(of + 8) == said.substr(in + 1, said.find(" in ", in) - in - 1) + " near)");  // all
    }
  }
}

TEST_CASE("other ranks and strategies go on from the copy near as well") {
  const NearRun run;
  const Outcome before = run.go(kFour, 3, {3});
  ruin_shards(run.disk(3));
  for (const Shape& other :
       {Shape{Strategy::ddp, 3, 3, 0, Wrap::block, 12}, Shape{Strategy::zero2, 1, 1, 0, Wrap::model, 12}}) {
    INFO(other.text());
    require_same_state(before, run.resume(other, 3));
  }
}

TEST_CASE("a damaged or partial copy near is replaced by the disk's files, and the damage has a line") {
  const NearRun run;
  const Outcome whole = run.go(kFour, 5, {3});
  std::filesystem::remove(run.near / "step-00000003/shard-00000.h5");
  const auto damaged = run.near / "step-00000003/shard-00002.h5";
  std::string bytes = test::read_file(damaged);
  bytes[bytes.size() - 40] ^= 1;
  test::write_file(damaged, bytes);
  const Outcome rest = run.resume(kFour, 5);
  REQUIRE(rest.first_step == 4);
  require_same_state(whole, rest);
  REQUIRE(rest.said.size() == 2);
  CHECK_THAT(rest.said[1], Catch::StartsWith("near ") && Catch::Contains(damaged.string() + " is damaged"));
  // Without the option nothing near is looked at.
  Options without = resumed(run.options);
  without.checkpoint.keep_near = "none";
  CHECK(run_saving(without, kFour, run.place / "run", 5, {}).said.size() == 1);
}

TEST_CASE("a start deletes what a killed writer left near, and a copy is never newer than the disk") {
  const NearRun run;
  const Outcome whole = run.go(kFour, 5, {2, 4});
  const std::set<std::string> complete = run.near_names();
  // Killed within the checkpoint of step 5.
  std::filesystem::copy(run.near / "step-00000004", run.near / "step-00000005");
  std::filesystem::rename(run.near / "step-00000005/shard-00001.h5", run.near / "step-00000005/shard-00001.h5.tmp");
  const Outcome rest = run.resume(kFour, 5);
  REQUIRE(rest.first_step == 5);
  require_same_state(whole, rest);
  REQUIRE(run.near_names() == complete);
  // The disk has lost its newest checkpoint: the copy near does not take its place.
  std::filesystem::remove_all(run.disk(4));
  REQUIRE(run.resume(kFour, 4).first_step == 3);
  REQUIRE(!std::filesystem::exists(run.near));
}

TEST_CASE("the copy before stays until the next checkpoint is complete on the disk") {
  const NearRun run;
  std::atomic<int> calls = 0;
  const RunHdf5 fails_later = [&](const std::function<void()>& task) {
    if (++calls > kFour.world + 1) throw IoError("the disk is gone");  // shards and tensors.h5 of the first are written
    task();
  };
  REQUIRE_THROWS_AS(run_saving(run.options, kFour, run.place / "run", 4, {2, 4}, small_gpt2(), fails_later), IoError);
  ruin_shards(run.disk(2));
  REQUIRE(run.resume(kFour, 4).first_step == 3);
}

TEST_CASE("without a place near there is one warning, and a run as without the option") {
  const NearRun run;
  test::write_file(run.place / "near", "a file");
  const Outcome whole = run.go(kFour, 4, {1, 2, 3});
  REQUIRE(whole.notes.size() == 1);
  CHECK_THAT(whole.notes[0], Catch::Contains("cannot create folder " + run.near.string() + " (Not a directory)") &&
                                 Catch::Contains("the disk's is complete"));
  const Outcome rest = run.resume(kFour, 4);
  REQUIRE(rest.first_step == 4);
  require_same_state(whole, rest);
}
