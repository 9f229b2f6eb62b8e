#include <algorithm>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/run/dump_file.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;

namespace {

std::vector<ParameterTensor> tensors() {
  std::vector<ParameterTensor> list(3);
  list[0].name = "transformer.wte.weight";
  list[0].shape = {13, 7};
  list[1].name = "transformer.h.0.ln_1.bias";
  list[1].shape = {7};
  list[2].name = "transformer.h.0.mlp.c_fc.weight";
  list[2].shape = {7, 29};
  for (auto& tensor : list) {
    tensor.elements = 1;
    for (const auto extent : tensor.shape) tensor.elements *= extent;
  }
  return list;
}

float value(bool weight, std::size_t tensor, std::int64_t element) {
  return (weight ? 1.0f : -1.0f) * (static_cast<float>(1000 * tensor) + static_cast<float>(element) + 0.5f);
}

struct Run {
  bool weight;
  std::size_t tensor;
  std::int64_t first, count;
};

/// Every tensor cut into runs of random length, all in random order.
std::vector<Run> shuffled_runs(std::mt19937& random) {
  std::vector<Run> runs;
  for (const bool weight : {false, true}) {
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      for (std::int64_t first = 0; first < tensors()[i].elements;) {
        const std::int64_t count =
            std::min<std::int64_t>(static_cast<std::int64_t>(random() % 30), tensors()[i].elements - first);
        runs.push_back({weight, i, first, count});
        first += count;
      }
    }
  }
  std::shuffle(runs.begin(), runs.end(), random);
  return runs;
}

void write(DumpFile& dump, const Run& run) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < run.count; ++i) values.push_back(value(run.weight, run.tensor, run.first + i));
  const auto id = TensorId(run.tensor);
  dump.write(run.weight ? DumpTable::weights : DumpTable::gradients, id, run.first, values);
}

}  // namespace

TEST_CASE("a dump holds every tensor whole, whatever the order of its runs") {
  const TemporaryFolder folder;
  const auto path = folder / "dump.h5";
  std::mt19937 random(11);
  for (int round = 0; round < 10; ++round) {
    DumpFile dump(path, tensors());
    for (const Run& run : shuffled_runs(random)) write(dump, run);
    dump.finish(40 + round, 3.25, 0.5);
    const Hdf5File file = Hdf5File::open(path);
    CHECK(hdf5_read_attribute<std::int64_t>(file.id(), "step") == 40 + round);
    CHECK(hdf5_read_attribute<double>(file.id(), "loss") == 3.25);
    CHECK(hdf5_read_attribute<double>(file.id(), "grad_norm") == 0.5);
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      for (const bool weight : {false, true}) {
        const auto array = Hdf5Array<float>::open(file.id(), (weight ? "weights/" : "gradients/") + tensors()[i].name);
        CHECK(array.shape() == tensors()[i].shape);
        std::vector<float> values(static_cast<std::size_t>(array.elements()));
        array.read(0, values);
        for (std::int64_t e = 0; e < array.elements(); ++e) {
          if (values[static_cast<std::size_t>(e)] != value(weight, i, e)) FAIL(tensors()[i].name << " element " << e);
        }
      }
    }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("an incomplete dump has no file, and a wrong run is an error") {
  const TemporaryFolder folder;
  const auto path = folder / "dump.h5";
  std::mt19937 random(12);
  auto runs = shuffled_runs(random);
  while (runs.back().count == 0) runs.pop_back();
  const Run last = runs.back();
  runs.pop_back();
  {
    DumpFile dump(path, tensors());
    for (const Run& run : runs) write(dump, run);
    CHECK_THAT(message_of<InternalError>([&] { dump.finish(1, 1, 1); }), Contains(tensors()[last.tensor].name));
    for (const Run& run : runs) {
      if (run.count > 0) CHECK_THROWS_AS(write(dump, run), InternalError);
    }
    CHECK_THROWS_AS(write(dump, {true, 1, 5, 3}), InternalError);
    CHECK_THROWS_AS(write(dump, {true, 1, -1, 1}), InternalError);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK_THROWS_AS(DumpFile(folder / "missing/dump.h5", tensors()), IoError);
}
