// Both backends between GPUs, on emulated GPUs: every collective over groups of 1 to 5 ranks as threads, each with its
// own device. Sums have the bits that CPU ranks have.

#include <catch2/catch.hpp>

#include "emulated/comm/device_collectives.hpp"
#include "gpu_emulator/libraries/nccl/nccl.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kMostElements = 1025;

DeviceCommSettings settings_for(CommBackend backend, std::int64_t ranks) {
  DeviceCommSettings settings;
  settings.comm.backend = backend;
  settings.timeout_seconds = 60;
  settings.largest_full = room_for(ranks, kMostElements);
  settings.largest_result = most_received(ranks, kMostElements) * 4;
  return settings;
}

std::vector<DeviceCase> cases(bool exact) {
  std::vector<DeviceCase> all;
  std::uint64_t seed = 1;
  for (const DType wire : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const DType shard : {DType::fp32, wire}) {
      for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, kMostElements}) {
        all.push_back({elements, wire, shard, ++seed, exact});
      }
    }
  }
  return all;
}

/// Runs all cases on `group` of a grid of `ranks`, with what `settings` say; returns what was wrong on any rank.
std::string run_world(std::int64_t ranks, std::int64_t per_node, std::int64_t group_size, Group group,
                      const DeviceCommSettings& settings) {
  emulator::set_device_count(static_cast<int>(ranks));
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  run_ranks(ranks, per_node, [&](RankContext& context) {
    const auto device = make_cuda_device(static_cast<int>(context.rank()));
    const ProcessGrid grid(ranks, per_node, group_size);
    const auto backend = make_device_comm_backend(context, *device, settings);
    const auto shared = backend->allocate_shared(settings.largest_full);
    const auto result = device->allocate(MemoryKind::device, settings.largest_result + 16);
    const auto stream = device->make_stream("gather");
    const auto communicator = backend->open(grid, group, "test", settings.largest_full);
    backend->warm_up(*stream);
    std::string& mine = wrong[static_cast<std::size_t>(context.rank())];
    for (const DeviceCase& one : cases(settings.deterministic || settings.comm.backend == CommBackend::staged)) {
      mine = run_on_device(*communicator, *stream, *device, shared->data(), result->data(), one);
      if (mine.empty()) continue;
      mine = fmt::format("rank {} of {}, {} elements of {} into {}: {}", context.rank(), ranks, one.elements,
                         name_of(one.wire), name_of(one.shard), mine);
      break;
    }
    backend->check();
  });
  for (const std::string& text : wrong) {
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

TEST_CASE("collectives between GPUs give the bits of the CPU's tree") {
  const CommBackend backend = GENERATE(CommBackend::staged, CommBackend::nccl);
  CAPTURE(name_of(backend));
  for (const std::int64_t ranks : {2, 3, 4, 5}) {
    CHECK(run_world(ranks, ranks, ranks, Group::world, settings_for(backend, ranks)) == "");
  }
  CHECK(emulator::open_nccl_communicators() == 0);
}

TEST_CASE("GPUs of several nodes talk through messages, and in groups") {
  const CommBackend backend = GENERATE(CommBackend::staged, CommBackend::nccl);
  CAPTURE(name_of(backend));
  CHECK(run_world(4, 2, 4, Group::world, settings_for(backend, 4)) == "");
  CHECK(run_world(4, 2, 2, Group::shard, settings_for(backend, 4)) == "");
  CHECK(run_world(4, 2, 2, Group::replica, settings_for(backend, 4)) == "");
  auto pairwise = settings_for(backend, 3);
  pairwise.force_pairwise = true;
  CHECK(run_world(3, 3, 3, Group::world, pairwise) == "");
}

TEST_CASE("more than eight ranks: the tall tree") {
  CHECK(run_world(11, 11, 11, Group::world, settings_for(CommBackend::nccl, 11)) == "");
  CHECK(run_world(24, 24, 24, Group::world, settings_for(CommBackend::nccl, 24)) == "");
}

TEST_CASE("the fast mode sums in NCCL's order") {
  auto settings = settings_for(CommBackend::nccl, 3);
  settings.deterministic = false;
  CHECK(run_world(3, 3, 3, Group::world, settings) == "");
}
