// The CUDA device layer over the emulated runtime: memory, streams, events, captured work.

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "emulated/backend/add.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/cuda/launch.hpp"

using namespace tessera;

namespace {

std::vector<int> counted(int n, int from) {
  std::vector<int> values(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = from + i;
  return values;
}

constexpr int kCount = 777;
constexpr std::int64_t kBytes = kCount * static_cast<std::int64_t>(sizeof(int));

/// Three arrays of kCount integers on a device.
struct Arrays {
  explicit Arrays(Device& device)
      : memory(device.allocate(MemoryKind::device, 3 * 4096)),
        a(reinterpret_cast<int*>(memory->data())),
        b(reinterpret_cast<int*>(memory->data() + 4096)),
        sum(reinterpret_cast<int*>(memory->data() + 8192)) {}
  std::unique_ptr<DeviceMemory> memory;
  int *a, *b, *sum;
};

void add(Stream& stream, const int* a, const int* b, int* sum) {
  testing::launch_add(cuda_stream(stream), a, b, sum, kCount);
}

std::vector<int> downloaded(Device& device, const int* data) {
  std::vector<int> values(kCount);
  device.copy(values.data(), data, kBytes);
  return values;
}

}  // namespace

TEST_CASE("a GPU tells what it is") {
  const auto device = make_cuda_device(0);
  CHECK(device->kind() == DeviceKind::cuda);
  CHECK_THAT(device->description(), Catch::Contains("emulated GPU") && Catch::Contains("sm_90"));
  CHECK_THAT(device->identity(), Catch::StartsWith("GPU-00000000-"));
  CHECK(device->free_memory() <= device->total_memory());
  CHECK(built_with_cuda());
  CHECK(cuda_device_count() == 1);
  CHECK(why_no_cuda_device().empty());
}

TEST_CASE("without a GPU that is a usage error") {
  emulator::set_device_count(0);
  CHECK(cuda_device_count() == 0);
  CHECK_FALSE(why_no_cuda_device().empty());
  CHECK_THROWS_AS(make_cuda_device(0), UsageError);
  emulator::set_device_count(1);
}

TEST_CASE("a GPU that the build has no code for is a usage error that names both") {
  emulator::set_capability(7, 5);
  CHECK_THROWS_WITH(make_cuda_device(0), Catch::Contains("emulated GPU (sm_75)") && Catch::Contains("sm_90+PTX") &&
                                             Catch::Contains("a build for it (from sm_80 on"));
  CHECK_THROWS_AS(make_cuda_device(0), UsageError);
  emulator::set_capability(9, 0);
  CHECK_NOTHROW(make_cuda_device(0));
}

TEST_CASE("device memory is zeroed, aligned, counted and limited") {
  const auto device = make_cuda_device(0);
  const std::int64_t before = emulator::allocated_bytes();
  {
    const auto memory = device->allocate(MemoryKind::device, 10'001);
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 256 == 0);
    CHECK(emulator::allocated_bytes() == before + 10'001);
    std::vector<std::byte> bytes(10'001, std::byte{1});
    device->copy(bytes.data(), memory->data(), 10'001);
    for (const std::byte byte : bytes) REQUIRE(byte == std::byte{0});
    CHECK(device->allocate(MemoryKind::device, 0)->data() == nullptr);
  }
  CHECK(emulator::allocated_bytes() == before);
  CHECK_THROWS_AS(device->allocate(MemoryKind::device, std::int64_t{1} << 40), UsageError);
}

TEST_CASE("poisoned memory is NaN, and nothing else is poisoned") {
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("test");
  const auto memory = device->allocate(MemoryKind::device, 24);
  device->fill_nan(*stream, {memory->data() + 8, 8});
  device->fill_nan(*stream, {});
  stream->synchronize();
  std::array<double, 3> numbers{};
  device->copy(numbers.data(), memory->data(), 24);
  CHECK(std::isnan(numbers[1]));
  CHECK((numbers[0] == 0 && numbers[2] == 0));
}

TEST_CASE("streams keep their order, and events keep it between them") {
  const auto device = make_cuda_device(0);
  const auto first = device->make_stream("first"), second = device->make_stream("second");
  const auto ready = device->make_event(), back = device->make_event();
  Arrays x(*device);
  for (int round = 0; round < 50; ++round) {
    const auto a = counted(kCount, round), b = counted(kCount, 1000 * round);
    device->copy(x.a, a.data(), kBytes);
    device->copy(x.b, b.data(), kBytes);
    add(*first, x.a, x.b, x.sum);  // s = a + b
    first->record(*ready);
    second->wait(*ready);
    add(*second, x.sum, x.a, x.b);  // b = s + a
    second->record(*back);
    first->wait(*back);
    add(*first, x.b, x.sum, x.a);  // a = b + s
    first->synchronize();
    const auto result = downloaded(*device, x.a);
    for (std::size_t i = 0; i < kCount; ++i) REQUIRE(result[i] == 3 * a[i] + 2 * b[i]);
  }
}

TEST_CASE("who waits for an event waits for its last record, though another stream's later one comes first") {
  const auto device = make_cuda_device(0);
  const auto first = device->make_stream("first"), second = device->make_stream("second");
  const auto third = device->make_stream("third");
  const auto event = device->make_event();
  std::atomic<bool> go{false}, done{false}, seen{false};
  const auto on = [](Stream& stream, auto work) {
    emulator::enqueue(static_cast<cudaStream_t>(stream.native()), work);
  };
  on(*first, [&] {
    while (!go) std::this_thread::yield();
    done = true;
  });
  first->record(*event);
  third->wait(*event);
  on(*third, [&] { seen = done.load(); });
  second->record(*event);
  second->synchronize();  // the later record is reached, the earlier one is not
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  go = true;
  third->synchronize();
  CHECK(seen);
}

TEST_CASE("copies of a stream come in its order") {
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("test");
  const auto pinned = device->allocate(MemoryKind::pinned, 2 * kBytes);
  auto* const host = reinterpret_cast<int*>(pinned->data());
  Arrays x(*device);
  const auto values = counted(kCount, 5);
  std::memcpy(host, values.data(), kBytes);
  device->copy(*stream, x.a, host, kBytes);
  device->copy(*stream, x.b, host, kBytes);
  add(*stream, x.a, x.b, x.sum);
  device->copy(*stream, host + kCount, x.sum, kBytes);
  stream->synchronize();
  for (std::size_t i = 0; i < kCount; ++i) REQUIRE(host[kCount + i] == 2 * values[i]);
}

TEST_CASE("timing events measure") {
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("test");
  const auto begin = device->make_event(EventUse::timing), end = device->make_event(EventUse::timing);
  Arrays x(*device);
  stream->record(*begin);
  for (int i = 0; i < 10; ++i) add(*stream, x.a, x.b, x.sum);
  stream->record(*end);
  CHECK(device->nanoseconds_between(*begin, *end) > 0);
}

TEST_CASE("captured work runs at each launch, its branches in the order of their events") {
  const auto device = make_cuda_device(0);
  const auto first = device->make_stream("first"), second = device->make_stream("second");
  const auto fork = device->make_event(), join = device->make_event();
  Arrays x(*device);
  const auto a = counted(kCount, 3), b = counted(kCount, 50);
  device->copy(x.a, a.data(), kBytes);
  device->copy(x.b, b.data(), kBytes);
  device->begin_capture(*first);
  add(*first, x.a, x.b, x.sum);
  first->record(*fork);
  second->wait(*fork);
  add(*second, x.sum, x.a, x.a);
  second->record(*join);
  first->wait(*join);
  add(*first, x.a, x.sum, x.b);
  const auto graph = device->end_capture(*first);
  CHECK(graph->nodes() == 3);
  CHECK(downloaded(*device, x.a) == a);  // nothing has run yet
  auto expected_a = a, expected_b = b;
  for (int round = 0; round < 20; ++round) {
    graph->launch(*first);
    first->synchronize();
    for (std::size_t i = 0; i < kCount; ++i) {
      const int sum = expected_a[i] % 1000 + expected_b[i] % 1000;
      expected_a[i] = sum + expected_a[i] % 1000;
      expected_b[i] = expected_a[i] + sum;
    }
    REQUIRE(downloaded(*device, x.a) == expected_a);
    REQUIRE(downloaded(*device, x.b) == expected_b);
    for (std::size_t i = 0; i < kCount; ++i) expected_a[i] %= 1000, expected_b[i] %= 1000;
    device->copy(x.a, expected_a.data(), kBytes);
    device->copy(x.b, expected_b.data(), kBytes);
  }
}

TEST_CASE("a capture that leaves a stream behind is refused") {
  const auto device = make_cuda_device(0);
  const auto first = device->make_stream("first"), second = device->make_stream("second");
  const auto fork = device->make_event();
  Arrays x(*device);
  device->begin_capture(*first);
  add(*first, x.a, x.b, x.sum);
  first->record(*fork);
  second->wait(*fork);
  add(*second, x.sum, x.a, x.a);
  CHECK_THROWS_AS(device->end_capture(*first), DeviceError);
}

TEST_CASE("nothing may be allocated or waited for while work is captured") {
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("test");
  Arrays x(*device);
  device->begin_capture(*stream);
  add(*stream, x.a, x.b, x.sum);
  CHECK_THROWS_AS(device->allocate(MemoryKind::device, 16), DeviceError);
  CHECK_THROWS_AS(stream->synchronize(), DeviceError);
  CHECK(device->end_capture(*stream)->nodes() == 1);
}

TEST_CASE("a stream writes words with a kernel if the driver cannot, and a wrong place is an error") {
  for (const bool drivers : {true, false}) {
    CAPTURE(drivers);
    emulator::set_stream_writes(drivers);
    const auto device = make_cuda_device(0);
    emulator::set_stream_writes(true);
    const auto memory = device->allocate(MemoryKind::pinned, 4);
    auto& word = *reinterpret_cast<std::uint32_t*>(memory->data());
    const auto stream = device->make_stream("compute");
    device->write(*stream, word, 5);
    stream->synchronize();
    CHECK(word == 5);
    std::uint32_t elsewhere = 0;
    if (drivers) CHECK_THROWS_AS(device->write(*stream, elsewhere, 1), DeviceError);
  }
}
