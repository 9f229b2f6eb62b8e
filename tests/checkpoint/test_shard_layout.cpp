#include "checkpoint/shard_layout.hpp"
#include "checkpoint_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("what is said of a new shard is what HDF5 says of it") {
  const TemporaryFolder folder;
  const auto tensors = some_tensors();
  for (const std::vector<ElementRun>& runs : std::vector<std::vector<ElementRun>>{
           {}, {{4, 0, 1}}, {{0, 3, 7}, {1, 0, 21}, {2, 100'000, 33'333}}, deal_runs(tensors, 1, 3)[0]}) {
    const auto path = folder / "shard.h5";
    const FileRecord made = create_shard_layout(path, 5, tensors, runs);
    CHECK(made.name == "shard.h5");
    CHECK(made.bytes == static_cast<std::int64_t>(std::filesystem::file_size(path)));
    const FileRecord read = read_shard_layout(path, tensors);
    CHECK(read.runs == runs);
    CHECK(read.offsets == made.offsets);
    // Datasets do not overlap, and lie inside the file: others write there without HDF5.
    const std::int64_t bytes = 4 * made.elements();
    for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
      const std::int64_t end = kind + 1 < kStateKinds ? made.offsets[kind + 1] : made.bytes;
      CHECK(made.offsets[kind] + bytes <= end);
    }
    std::filesystem::remove(path);
  }
}

TEST_CASE("a shard of other tensors, of another format or with other datasets is refused by name") {
  const TemporaryFolder folder;
  auto tensors = some_tensors();
  const auto path = folder / "shard.h5";
  const auto error = [&] { return message_of<IoError>([&] { read_shard_layout(path, tensors); }); };
  CHECK_THAT(error(), Contains("shard.h5"));
  create_shard_layout(path, 0, tensors, {{0, 0, 8}});
  std::swap(tensors[0], tensors[1]);
  CHECK_THAT(error(), Contains("lists other tensors than the manifest"));
  tensors.pop_back();
  CHECK_THAT(error(), Contains("lists other tensors than the manifest"));

  // The same file by hand, with one thing wrong at a time.
  const auto remake = [&](const char* format, std::vector<std::int64_t> runs, std::int64_t elements, bool wide) {
    Hdf5File file = Hdf5File::create(path, Hdf5File::Create::truncate);
    hdf5_write_attribute(file.id(), "format", std::string_view(format));
    std::vector<std::string> names;
    for (const TensorRecord& tensor : tensors) names.push_back(tensor.name);
    hdf5_write_strings(file.id(), "tensors", names);
    hdf5_write<std::int64_t>(file.id(), "runs", runs, {static_cast<std::int64_t>(runs.size())});
    for (const StateKind kind : kinds_of(StateContent::full)) {
      const std::string name(name_of(kind));
      const auto size = static_cast<std::size_t>(elements);
      if (wide) {
        hdf5_write<double>(file.id(), name, std::vector<double>(size), {elements});
      } else {
        hdf5_write<float>(file.id(), name, std::vector<float>(size), {elements});
      }
    }
    file.close();
  };
  const char* format = "tessera checkpoint shard";
  remake(format, {0, 0, 8}, 8, false);
  CHECK(read_shard_layout(path, tensors).runs == std::vector<ElementRun>{{0, 0, 8}});
  remake("tessera metrics", {0, 0, 8}, 8, false);
  CHECK_THAT(error(), Contains("is not a shard of a checkpoint"));
  remake(format, {0, 0, 8, 1}, 8, false);
  CHECK_THAT(error(), Contains("not triples"));
  remake(format, {0, 0, -8}, 8, false);
  CHECK_THAT(error(), Contains("a run of -8 elements"));
  remake(format, {0, 0, 8}, 9, false);
  CHECK_THAT(error(), Contains("has 9 elements, but its runs need 8"));
  remake(format, {0, 0, 8}, 8, true);
  CHECK_THAT(error(), Contains("not little-endian fp32"));
}
