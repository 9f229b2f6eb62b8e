// Words of pinned memory that streams write, eagerly and from graphs.

#include <atomic>
#include <catch2/catch.hpp>

#include "cuda/backend/stream_writes.hpp"
#include "kernels/cuda/test_device.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Two words, and a stream that writes the second one.
struct Words {
  Words() {
    prepare_test_device(1);
    device = make_cuda_device(0);
    stream = device->make_stream("test");
    memory = device->allocate(MemoryKind::pinned, 2 * sizeof(std::uint32_t));
    first = reinterpret_cast<std::uint32_t*>(memory->data());
  }
  cudaStream_t native() const { return static_cast<cudaStream_t>(stream->native()); }
  std::uint32_t read(int i) const { return std::atomic_ref(first[i]).load(); }

  template <class Write>
  void check(Write&& write) {
    write(5);
    stream->synchronize();
    CHECK(read(0) == 0);
    CHECK(read(1) == 5);
    device->begin_capture(*stream);
    write(7), write(9);
    const auto graph = device->end_capture(*stream);
    CHECK(read(1) == 5);
    for (int i = 0; i < 3; ++i) {
      std::atomic_ref(first[1]).store(0);
      graph->launch(*stream);
      stream->synchronize();
      CHECK(read(1) == 9);
    }
  }

  std::unique_ptr<tessera::Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<DeviceMemory> memory;
  std::uint32_t* first = nullptr;
};

}  // namespace

TEST_CASE("a stream writes words through the driver") {
  Words words;
  const StreamWrites writes(words.native());
  if (!writes.uses_driver()) WARN("this driver's write cannot be captured: a kernel takes its place");
  words.check([&](std::uint32_t value) { writes.write(words.native(), &words.first[1], value); });
}

TEST_CASE("a stream writes words through a kernel") {
  Words words;
  words.check([&](std::uint32_t value) { launch_store_word(words.native(), &words.first[1], value); });
}
