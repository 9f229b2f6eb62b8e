// Every collective between processes on real GPUs, against the reference that CPU communicators are tested with.
//   TESSERA_TEST_BACKEND   staged (any number of ranks a GPU) or nccl
// Also measures the time of a gather and a reduction of 64 MiB.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "emulated/comm/device_collectives.hpp"
#include "mpi_world.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kMostElements = 4097;
constexpr std::int64_t kTimedBytes = std::int64_t{64} << 20;

CommBackend wanted_backend() {
  const char* const text = std::getenv("TESSERA_TEST_BACKEND");
  return text != nullptr && std::string(text) == "nccl" ? CommBackend::nccl : CommBackend::staged;
}

/// A rank's equipment: its share of the machine's GPUs, and a communication backend.
struct Rank {
  explicit Rank(bool deterministic)
      : device(make_cuda_device(static_cast<int>(world().node_rank()) % std::max(1, cuda_device_count()))) {
    settings.comm.backend = wanted_backend();
    settings.deterministic = deterministic;
    settings.timeout_seconds = 60;
    settings.largest_full = std::max(kTimedBytes, room_for(world().size(), kMostElements));
    settings.largest_result = std::max(kTimedBytes, kMostElements * 4);
    backend = make_device_comm_backend(world(), *device, settings);
    shared = backend->allocate_shared(settings.largest_full);
    result = device->allocate(MemoryKind::device, settings.largest_result + 16);
    stream = device->make_stream("test");
    group = backend->open(ProcessGrid(world().size(), world().ranks_per_node(), world().size()), Group::world, "test",
                          settings.largest_full);
    backend->warm_up(*stream);
  }
  DeviceCommSettings settings;
  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceCommBackend> backend;
  std::unique_ptr<DeviceMemory> shared, result;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Communicator> group;
};

template <class Work>
double seconds_of(Rank& rank, Work&& work) {
  work();
  rank.stream->synchronize();
  const auto start = std::chrono::steady_clock::now();
  constexpr int kTimes = 10;
  for (int i = 0; i < kTimes; ++i) work();
  rank.stream->synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kTimes;
}

void say_time(const char* what, std::int64_t bytes, double seconds) {
  if (world().rank() != 0) return;
  const double sent =
      static_cast<double>(bytes) * static_cast<double>(world().size() - 1) / static_cast<double>(world().size());
  std::printf("%-16s 64 MiB over %lld ranks: %.3f ms, %.1f GB/s of each rank's traffic\n", what,
              static_cast<long long>(world().size()), 1e3 * seconds, sent / seconds / 1e9);
}

}  // namespace

TEST_CASE("collectives between GPUs have the CPU's bits") {
  if (world().size() == 1) return;
  Rank rank(true);
  if (world().rank() == 0) std::printf("%s\n", rank.backend->description().c_str());
  std::uint64_t seed = 1;
  for (const DType wire : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const DType shard : {DType::fp32, wire}) {
      for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{7}, std::int64_t{640}, kMostElements}) {
        const DeviceCase one{elements, wire, shard, ++seed, true};
        const std::string wrong =
            run_on_device(*rank.group, *rank.stream, *rank.device, rank.shared->data(), rank.result->data(), one);
        CAPTURE(elements, wrong);
        REQUIRE_ALL(wrong.empty());
      }
    }
  }
  rank.backend->check();
}

TEST_CASE("how long collectives take", "[time]") {
  if (world().size() == 1) return;
  Rank rank(true);
  const std::int64_t elements = kTimedBytes / 4 / world().size() / 64 * 64, bytes = elements * world().size() * 4;
  say_time("all_gather", bytes,
           seconds_of(rank, [&] { rank.group->all_gather(*rank.stream, rank.shared->data(), elements, DType::fp32); }));
  say_time("reduce_scatter", bytes, seconds_of(rank, [&] {
             rank.group->reduce_scatter(*rank.stream, rank.shared->data(), DType::fp32, rank.result->data(),
                                        DType::fp32, elements);
           }));
}

TEST_CASE("NCCL's own sums are close") {
  if (world().size() == 1 || wanted_backend() != CommBackend::nccl) return;
  Rank rank(false);
  const DeviceCase one{kMostElements, DType::fp32, DType::fp32, 7, false};
  const std::string wrong =
      run_on_device(*rank.group, *rank.stream, *rank.device, rank.shared->data(), rank.result->data(), one);
  CAPTURE(wrong);
  REQUIRE_ALL(wrong.empty());
}

TEST_CASE("NCCL's collectives are captured and replayed") {
  if (world().size() == 1 || wanted_backend() != CommBackend::nccl) return;
  Rank rank(true);
  const std::int64_t elements = 640, total = elements * world().size();
  Bytes host(static_cast<std::size_t>(total * 4));
  rank.device->begin_capture(*rank.stream);
  rank.group->reduce_scatter(*rank.stream, rank.shared->data(), DType::fp32, rank.result->data(), DType::fp32,
                             elements);
  const auto graph = rank.device->end_capture(*rank.stream);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fill_contribution(host.data(), DType::fp32, seed, world().rank(), total);
    rank.device->copy(rank.shared->data(), host.data(), total * 4);
    graph->launch(*rank.stream);
    rank.stream->synchronize();
    const Bytes shard = downloaded(*rank.device, rank.result->data(), elements * 4);
    const auto wrong =
        wrong_sums(shard.data(), DType::fp32, DType::fp32, seed, world().size(), world().rank(), elements);
    CAPTURE(seed);
    REQUIRE_ALL(wrong == 0);
  }
}
