// The files of a checkpoint that are opened, how many at a time, and a reader's message for an unreadable one.
#include <sys/resource.h>

#include <cerrno>

#include "checkpoint_case.hpp"
#include "file_spy.hpp"
#include "tessera/files/byte_file.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Reads every element of a kind and compares.
void require_all(const CheckpointReader& reader, int threads) {
  for (std::size_t t = 0; t < reader.manifest().tensors.size(); ++t) {
    std::vector<float> values(static_cast<std::size_t>(reader.manifest().tensors[t].elements));
    const auto tensor = static_cast<std::int64_t>(t);
    const WantedRun want{StateKind::first_moment, tensor, 0, reader.manifest().tensors[t].elements, values.data()};
    reader.read({&want, 1}, threads);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != element_value(StateKind::first_moment, tensor, static_cast<std::int64_t>(i)))
        FAIL("tensor " << t << " element " << i);
    }
  }
}

/// A small limit of open files during its lifetime.
class FewFiles {
 public:
  explicit FewFiles(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    struct rlimit few = before_;
    few.rlim_cur = most;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  struct rlimit before_ {};
};

}  // namespace

namespace {

/// Reads random slices and compares every element.
void require_slices(const std::filesystem::path& folder, std::uint32_t seed) {
  const CheckpointReader reader(folder);
  std::mt19937 random(seed);
  std::vector<WantedRun> wanted;
  std::vector<std::vector<float>> memory;  // of bf16, too
  const DType moments = reader.manifest().moments();
  for (int i = 0; i < 60; ++i) {
    const auto tensor = static_cast<std::int64_t>(random() % reader.manifest().tensors.size());
    const std::int64_t elements = reader.manifest().tensors[static_cast<std::size_t>(tensor)].elements;
    const auto first = static_cast<std::int64_t>(random()) % elements;
    const auto count = 1 + static_cast<std::int64_t>(random()) % (elements - first);
    memory.emplace_back(static_cast<std::size_t>(count), -1.0F);
    const DType dtype = random() % 2 == 0 ? DType::fp32 : DType::bf16;
    wanted.push_back({kinds_of(StateContent::full)[random() % 3], tensor, first, count, memory.back().data(), dtype});
  }
  reader.read(wanted, 3);
  for (const WantedRun& want : wanted) {
    std::vector<float> values(static_cast<std::size_t>(want.count));
    convert(want.to, want.dtype, values.data(), DType::fp32, want.count);
    for (std::int64_t i = 0; i < want.count; ++i) {
      const float stored = element_value(want.kind, want.tensor, want.first + i, moments);
      if (values[static_cast<std::size_t>(i)] !=
          (want.dtype == DType::fp32 ? stored : static_cast<float>(bf16(stored))))
        FAIL("tensor " << want.tensor << " element " << want.first + i << " is "
                       << values[static_cast<std::size_t>(i)]);
    }
  }
}

}  // namespace

TEST_CASE("any slices of any shards") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  for (const std::size_t writers : {1, 2, 5, 40}) {
    INFO(writers << " writers");
    const DType moments = writers % 2 == 0 ? DType::bf16 : DType::fp32;
    const Manifest written =
        write_checkpoint(folder, static_cast<std::int64_t>(writers), writers, 1, StateContent::full, moments);
    const auto path = folder.of_step(static_cast<std::int64_t>(writers));
    require_slices(path, 7);
    REQUIRE(index_defect(path).empty());
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
  damage(path / "manifest.json", future, "which a newer program wrote");
  std::filesystem::remove(path / "manifest.json");
  REQUIRE(message_of<IoError>([&] { CheckpointReader reader(path); }).find("is not a complete checkpoint") !=
          std::string::npos);
}

TEST_CASE("more shards than a process may open") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 90);  // and more than stay open
  require_all(CheckpointReader(folder.of_step(3)), 3);
  const FewFiles few(20);
  require_all(CheckpointReader(folder.of_step(3)), 3);
}

TEST_CASE("only files that hold what is wanted are opened, and each rank looks at its share") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  const Manifest manifest = write_checkpoint(folder, 3, 4);
  const std::size_t other = 2;
  std::int64_t tensor = -1, first = 0;
  for (const ElementRun& one : manifest.files[0].runs) tensor = one.tensor, first = one.first;
  float value = 0;
  const WantedRun want{StateKind::parameter, tensor, first, 1, &value};
  file_spy::start();
  for (const std::size_t file : {std::size_t{1}, other, std::size_t{3}, std::size_t{4}})
    file_spy::rule("open", "step-00000003/" + manifest.files[file].name, EIO);
  CheckpointReader(folder.of_step(3)).read({&want, 1}, 1);
  file_spy::stop();
  REQUIRE(value == element_value(StateKind::parameter, tensor, first));

  std::filesystem::resize_file(folder.of_step(3) / manifest.files[other].name, 10);
  CheckpointReader(folder.of_step(3), {1, 2}).read({&want, 1}, 1);
  REQUIRE(message_of<IoError>([&] {
            CheckpointReader(folder.of_step(3), {0, 2});
          }).find("cut short") != std::string::npos);
}

TEST_CASE("what cannot be read is told from what is damaged") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 1);
  float value = 0;
  const WantedRun want{StateKind::parameter, 0, 0, 1, &value};
  const auto read = [&] { CheckpointReader(folder.of_step(3)).read({&want, 1}, 1); };
  for (const std::string name : {"shard-00000.h5", "manifest.json"}) {
    for (const int error : {EIO, ESTALE, EMFILE, ENOMEM, EACCES}) {
      file_spy::start();
      file_spy::rule("open", name, error);
      REQUIRE_THROWS_AS(read(), UnreadableError);
      file_spy::stop();
    }
  }
  read();
  std::filesystem::remove(folder.of_step(3) / "shard-00000.h5");
  try {
    read();
    FAIL("no error");
  } catch (const UnreadableError&) {
    FAIL("a missing file is damage");
  } catch (const IoError&) {
  }
}

TEST_CASE("weights alone are read as those of a checkpoint, and have no moments") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  const Manifest manifest = write_checkpoint(folder, 3, 2, 1, StateContent::weights);
  const CheckpointReader reader(folder.of_step(3));
  CHECK(reader.manifest().content == StateContent::weights);
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const auto tensor = static_cast<std::int64_t>(i);
    std::vector<float> values(static_cast<std::size_t>(manifest.tensors[i].elements));
    const WantedRun want{StateKind::parameter, tensor, 0, manifest.tensors[i].elements, values.data()};
    reader.read({&want, 1}, 2);
    for (std::size_t element = 0; element < values.size(); ++element) {
      if (values[element] != element_value(StateKind::parameter, tensor, static_cast<std::int64_t>(element)))
        FAIL("element " << element << " of tensor " << tensor);
    }
  }
  for (const StateKind kind : {StateKind::first_moment, StateKind::second_moment}) {
    float value = 0;
    const WantedRun want{kind, 0, 0, 1, &value};
    CHECK_THAT(message_of<IoError>([&] {
                 reader.read({&want, 1}, 1);
               }),
               Catch::Contains("step-00000003 holds weights only, so it has no " + std::string(name_of(kind))));
  }
}
