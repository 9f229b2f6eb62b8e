#include "checkpoint_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"

using namespace tessera;
using namespace tessera::test;

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

TEST_CASE("nothing but tensors.h5 itself needs tensors.h5, and a new one is listed in the manifest") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 2);
  const auto path = folder.of_step(3), tensors = path / std::string(kVirtualName);
  const std::string good = read_file(tensors);
  for (const std::string& bytes : {std::string(), good.substr(0, good.size() / 2), std::string("x") + good.substr(1)}) {
    write_file(tensors, bytes);
    if (bytes.empty()) std::filesystem::remove(tensors);
    INFO(bytes.size() << " bytes of " << good.size());
    CheckpointReader reader(path);
    CHECK(verify_checkpoint(path, 1).empty());
    CHECK(index_defect(path).find("tensors.h5") != std::string::npos);
    CHECK(add_virtual_tensors(path));
    CHECK(index_defect(path).empty());
    CHECK_FALSE(add_virtual_tensors(path));
  }
}

TEST_CASE("virtual tensors can be made later, once, and are the shards' elements") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  const DType moments = GENERATE(DType::fp32, DType::bf16);
  const Manifest manifest = write_checkpoint(folder, 3, 5, 1, StateContent::full, moments);
  const auto path = folder.of_step(3);
  CHECK_FALSE(add_virtual_tensors(path));
  std::filesystem::remove(path / std::string(kVirtualName));
  CHECK(add_virtual_tensors(path));
  CHECK_FALSE(add_virtual_tensors(path));
  const Hdf5File file = Hdf5File::open(path / std::string(kVirtualName));
  for (const StateKind kind : kinds_of(StateContent::full)) {
    const Hdf5Group group(H5Gopen2(file.id(), std::string(name_of(kind)).c_str(), H5P_DEFAULT));
    for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
      const TensorRecord& tensor = manifest.tensors[t];
      const auto array = Hdf5Array<float>::open(group.id(), tensor.name);
      CHECK(array.shape() == tensor.shape);
      std::vector<float> values(static_cast<std::size_t>(tensor.elements));
      array.read(0, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] != element_value(kind, static_cast<std::int64_t>(t), static_cast<std::int64_t>(i), moments))
          FAIL(tensor.name << " element " << i << " is " << values[i]);
      }
    }
  }
}
