// Several communicators on one GPU: issue order, overlap, capture.

#include <catch2/catch.hpp>

#include "emulated/comm/device_collectives.hpp"
#include "gpu_emulator/libraries/nccl/nccl.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kElements = 96;

/// The means of a rank for a step's communication: two queues with a communicator each.
struct TwoQueues {
  TwoQueues(RankContext& context, CommBackend kind) : device(make_cuda_device(static_cast<int>(context.rank()))) {
    DeviceCommSettings settings;
    settings.comm.backend = kind;
    settings.timeout_seconds = 60;
    settings.largest_full = context.size() * kElements * 4;
    settings.largest_result = kElements * 4;
    const ProcessGrid grid(context.size(), context.size(), context.size());
    backend = make_device_comm_backend(context, *device, settings);
    shared = backend->allocate_shared(2 * settings.largest_full);
    shard = device->allocate(MemoryKind::device, kElements * 4);
    whole = shared->data(), contribution = shared->data() + settings.largest_full;
    compute = device->make_stream("compute");
    queues.push_back(device->make_stream("gather"));
    queues.push_back(device->make_stream("reduce"));
    gathers = backend->open(grid, Group::world, "gather", 0);
    reduces = backend->open(grid, Group::world, "reduce", settings.largest_full);
    for (int i = 0; i < 3; ++i) events.push_back(device->make_event());
  }
  /// Gather and reduce at once, between two points of the compute stream.
  void step() {
    compute->record(*events[0]);
    for (auto& queue : queues) queue->wait(*events[0]);
    gathers->all_gather(*queues[0], whole, kElements, DType::fp32);
    reduces->reduce_scatter(*queues[1], contribution, DType::fp32, shard->data(), DType::fp32, kElements);
    for (std::size_t i = 0; i < 2; ++i) queues[i]->record(*events[i + 1]), compute->wait(*events[i + 1]);
  }
  void fill(Communicator& group) {
    Bytes host(static_cast<std::size_t>(group.size() * kElements * 4));
    fill_contribution(host.data(), DType::fp32, 5, group.rank(), group.size() * kElements);
    device->copy(contribution, host.data(), static_cast<std::int64_t>(host.size()));
    device->copy(whole, host.data(), static_cast<std::int64_t>(host.size()));
  }
  std::int64_t wrong(Communicator& group) {
    const Bytes host = downloaded(*device, shard->data(), kElements * 4);
    std::int64_t bad = wrong_sums(host.data(), DType::fp32, DType::fp32, 5, group.size(), group.rank(), kElements);
    const Bytes all = downloaded(*device, whole, group.size() * kElements * 4);
    for (std::int64_t i = 0; i < group.size() * kElements; ++i) {
      if (load(all.data(), DType::fp32, i) != term(5, i / kElements, i)) ++bad;
    }
    return bad;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceCommBackend> backend;
  std::unique_ptr<DeviceMemory> shared, shard;
  std::byte *whole = nullptr, *contribution = nullptr;
  std::unique_ptr<Stream> compute;
  std::vector<std::unique_ptr<Stream>> queues;
  std::unique_ptr<Communicator> gathers, reduces;
  std::vector<std::unique_ptr<Event>> events;
};

}  // namespace

TEST_CASE("gathers and reductions on streams of their own do not wait for each other across ranks") {
  const CommBackend backend = GENERATE(CommBackend::staged, CommBackend::nccl);
  static_cast<void>(emulator::nccl_issue_orders());  // forgets those of other tests
  emulator::set_device_count(3);
  run_ranks(3, 3, [&](RankContext& context) {
    TwoQueues rank(context, backend);
    for (int i = 0; i < 40; ++i) {
      rank.fill(*rank.gathers);
      rank.step();
      rank.compute->synchronize();
      rank.backend->check();
      if (rank.wrong(*rank.gathers) != 0) throw InternalError("step {} is wrong on rank {}", i, context.rank());
    }
  });
  CHECK(emulator::nccl_issue_orders() == "");
}

TEST_CASE("the emulated NCCL notices ranks that issue work in different orders") {
  static_cast<void>(emulator::nccl_issue_orders());
  emulator::set_device_count(2);
  run_ranks(2, 2, [&](RankContext& context) {
    TwoQueues rank(context, CommBackend::nccl);
    Communicator& first = context.rank() == 0 ? *rank.gathers : *rank.reduces;
    Communicator& second = context.rank() == 0 ? *rank.reduces : *rank.gathers;
    first.barrier(*rank.queues[0]);
    second.barrier(*rank.queues[1]);
    for (auto& queue : rank.queues) queue->synchronize();
  });
  CHECK(emulator::nccl_issue_orders() != "");
}

TEST_CASE("NCCL's collectives are captured and replayed") {
  emulator::set_device_count(3);
  run_ranks(3, 3, [&](RankContext& context) {
    TwoQueues rank(context, CommBackend::nccl);
    rank.backend->warm_up(*rank.compute);
    rank.device->begin_capture(*rank.compute);
    rank.step();
    rank.step();
    const auto graph = rank.device->end_capture(*rank.compute);
    for (int i = 0; i < 20; ++i) {
      rank.fill(*rank.gathers);
      graph->launch(*rank.compute);
      rank.compute->synchronize();
      rank.backend->check();
      if (rank.wrong(*rank.gathers) != 0) throw InternalError("replay {} is wrong on rank {}", i, context.rank());
    }
  });
  CHECK(emulator::captured_nccl_registrations() == 0);
}

TEST_CASE("staged collectives refuse to be captured") {
  emulator::set_device_count(2);
  CHECK_THROWS_WITH(run_ranks(2, 2,
                              [&](RankContext& context) {
                                TwoQueues rank(context, CommBackend::staged);
                                rank.device->begin_capture(*rank.compute);
                                try {
                                  rank.step();
                                } catch (const InternalError&) {
                                  try {
                                    rank.device->end_capture(*rank.compute);
                                  } catch (const std::exception&) {  // queues were not joined
                                  }
                                  throw;
                                }
                              }),
                    Catch::Contains("cannot be captured"));
}
