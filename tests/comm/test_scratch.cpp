#include <catch2/catch.hpp>

#include "tessera/comm/scratch.hpp"

using namespace tessera;

namespace {
constexpr std::int64_t kMiB = 1 << 20;
}

TEST_CASE("blocks of messages share 16 MiB among the ranks, in pages, at least one") {
  CHECK(message_block_bytes(1) == 16 * kMiB);
  CHECK(message_block_bytes(4) == 4 * kMiB);
  CHECK(message_block_bytes(3) == 1365 * 4096);
  CHECK(message_block_bytes(100'000) == 4096);
  for (std::int64_t ranks = 1; ranks <= 4096; ++ranks) {
    const std::int64_t block = message_block_bytes(ranks);
    if (block % 4096 != 0 || block < 4096 || ranks * block > 16 * kMiB) FAIL(ranks << " ranks: " << block);
    if (ranks * (block + 4096) <= 16 * kMiB) FAIL(ranks << " ranks: room for more than " << block);
  }
}

TEST_CASE("a sum over messages takes what it has to, up to its blocks") {
  const auto bytes = [](std::int64_t ranks, std::int64_t elements, DType wire) {
    return reduce_scratch_bytes(CollectiveAlgorithm::messages, ranks, elements, wire, DType::fp32);
  };
  CHECK(bytes(3, 7, DType::fp32) == 3 * 64);
  CHECK(bytes(3, 17, DType::fp32) == 3 * 128);
  CHECK(bytes(3, 17, DType::bf16) == 3 * 64);
  CHECK(bytes(4, 100 * kMiB, DType::fp32) == 16 * kMiB);
  CHECK(bytes(3, 0, DType::fp32) == 0);
  const auto integers = [](std::int64_t ranks, std::int64_t count) {
    return all_reduce_scratch_bytes(CollectiveAlgorithm::messages, ranks, count);
  };
  CHECK(integers(2, 70) == 560);
  CHECK(integers(2, 100 * kMiB) == 16 * kMiB);
}

TEST_CASE("NCCL takes a copy for its tree, and for a sum that is converted") {
  const auto bytes = [](CollectiveAlgorithm algorithm, DType wire, DType shard) {
    return reduce_scratch_bytes(algorithm, 5, 13, wire, shard);
  };
  CHECK(bytes(CollectiveAlgorithm::nccl_tree, DType::bf16, DType::fp32) == 5 * 13 * 2);
  CHECK(bytes(CollectiveAlgorithm::nccl_tree, DType::fp32, DType::fp32) == 5 * 13 * 4);
  CHECK(bytes(CollectiveAlgorithm::nccl_sum, DType::fp32, DType::fp32) == 0);
  CHECK(bytes(CollectiveAlgorithm::nccl_sum, DType::bf16, DType::fp32) == 13 * 2);
  for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::shared_memory, CollectiveAlgorithm::staged})
    CHECK(bytes(algorithm, DType::bf16, DType::fp32) == 0);
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::shared_memory, CollectiveAlgorithm::nccl_tree, CollectiveAlgorithm::nccl_sum})
    CHECK(all_reduce_scratch_bytes(algorithm, 5, 13) == 0);
}

TEST_CASE("staged collectives take both buffers, each on a boundary of 256 bytes") {
  CHECK(staged_bytes(0, 0) == 0);
  CHECK(staged_bytes(1, 0) == 256);
  CHECK(staged_bytes(256, 257) == 256 + 512);
}
