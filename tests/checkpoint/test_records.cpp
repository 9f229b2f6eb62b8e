#include <catch2/catch.hpp>

#include "tessera/checkpoint/records.hpp"

using namespace tessera;

TEST_CASE("tensors are listed as the model has them") {
  std::vector<ParameterTensor> tensors(2);
  tensors[0].name = "transformer.wte.weight", tensors[0].shape = {5, 3}, tensors[0].elements = 15;
  tensors[1].name = "transformer.ln_f.bias", tensors[1].shape = {3}, tensors[1].elements = 3;
  const auto records = tensor_records(tensors);
  REQUIRE(records.size() == 2);
  CHECK(records[0] == TensorRecord{"transformer.wte.weight", {5, 3}, 15});
  CHECK(records[1] == TensorRecord{"transformer.ln_f.bias", {3}, 3});
}

TEST_CASE("a shard holds the elements of its runs, the file of virtual tensors none") {
  FileRecord shard;
  shard.name = "shard-00000.h5";
  shard.runs = {{0, 4, 7}, {2, 0, 1}, {0, 11, 100'000'000'000}};
  CHECK(shard.elements() == 100'000'000'008);
  CHECK(shard.is_shard());
  FileRecord all;
  all.name = kVirtualName;
  CHECK_FALSE(all.is_shard());
  CHECK(all.elements() == 0);
}
