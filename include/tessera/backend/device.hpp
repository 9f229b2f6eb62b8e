#pragma once
// A compute device and its memory behind one interface: the cores of this machine, or one GPU. The engine drives both
// with the same code.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tessera/backend/device_kind.hpp"
#include "tessera/backend/stream.hpp"

namespace tessera {

/// The kinds of memory, by who can access them.
enum class MemoryKind : std::uint8_t {
  device,  ///< memory that the device computes in
  pinned,  ///< host memory that the device copies from and to by itself; its pages are there from the start
};

/// An allocation, freed with the object; zeroed, and aligned to 256 bytes at least.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::int64_t size() const = 0;
};

/// Work captured from streams once and launched as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void launch(Stream& stream) = 0;
  /// Returns the number of kernels, copies and other nodes.
  virtual std::int64_t nodes() const = 0;
};

/// Stream priority. Collectives run at high priority so that queued compute cannot delay them.
enum class StreamPriority : std::uint8_t { normal, high };

/// The use of an event: order alone, or also the time between two of them.
enum class EventUse : std::uint8_t { order, timing };

/// One device of one rank. Memory and streams are made at start only. It must outlive them.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  /// Returns, for the log, "8 cores", "NVIDIA H200, 139 GiB, sm_90, driver 12.8".
  virtual std::string description() const = 0;
  /// Names the kind of device: equal where equal arithmetic can be expected. "NVIDIA H200, sm_90".
  virtual std::string model() const = 0;
  /// Names the device itself, the same for every rank that uses it ("GPU-2f0c..."); empty on the CPU.
  virtual std::string identity() const = 0;
  /// Returns the bytes of device memory that this process may still take, and the total; 0 where that is not known.
  virtual std::int64_t free_memory() const = 0;
  virtual std::int64_t total_memory() const = 0;
  /// Returns how much more of a GPU's memory is in use, by any process, than when it was opened; nothing on the CPU.
  virtual std::optional<std::int64_t> memory_taken() const = 0;

  /// Makes a stream for the work of the calling thread. CPU: it runs there at once. GPU: a stream like any other.
  virtual std::unique_ptr<Stream> make_caller_stream(const std::string& name) = 0;
  /// Makes a stream whose work runs concurrently with the caller (CPU: on its own thread). CPU streams differ in name
  /// only.
  virtual std::unique_ptr<Stream> make_stream(const std::string& name,
                                              StreamPriority priority = StreamPriority::normal) = 0;
  virtual std::unique_ptr<Event> make_event(EventUse use = EventUse::order) = 0;
  /// Returns the nanoseconds from `begin` to `end`, two timing events of this device; waits for `end`.
  virtual std::int64_t nanoseconds_between(Event& begin, Event& end) = 0;

  /// UsageError when too little memory is left.
  virtual std::unique_ptr<DeviceMemory> allocate(MemoryKind kind, std::int64_t bytes) = 0;

  /// Copies between device and host (or within either) and returns when it is done. Waits for no stream: the caller
  /// ensures that nothing is writing there.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  /// Fills stretches of device memory from the host and returns when it is done. `write` gets the number of a stretch,
  /// and host memory for it and those after it. The CPU calls it once, with all of them in place. A GPU calls it for
  /// each stretch, with a buffer that is copied afterwards.
  virtual void fill_by_host(std::span<const std::span<std::byte>> memory,
                            const std::function<void(std::size_t first, std::span<void* const> host)>& write) = 0;
  /// Copies as work of a stream. Called where its tasks are called, as kernels are. On the CPU it copies at once; on a
  /// GPU it is enqueued. Host memory must then be pinned, and stay unchanged until the copy is done.
  virtual void copy(Stream& stream, void* to, const void* from, std::int64_t bytes) = 0;
  /// Writes a word of pinned memory as work of a stream, visible to the host after all earlier work of the stream. Any
  /// thread may read the word, with an atomic load.
  virtual void write(Stream& stream, std::uint32_t& word, std::uint32_t value) = 0;
  /// Fills device memory with bytes of 0xff, as work of a stream: a NaN in every floating type.
  virtual void fill_nan(Stream& stream, std::span<std::byte> memory) = 0;

  /// Makes this the device of the calling thread. Every thread calls it before anything else here.
  virtual void enter_thread() = 0;

  /// Names what this thread submits until the range ends, for profilers (NVTX). Ranges nest. Nothing on the CPU.
  virtual void begin_range(const char* name) = 0;
  virtual void end_range() = 0;

  /// Returns whether linears may multiply in fp8 (precision.linear).
  virtual bool multiplies_fp8() const = 0;
  /// Returns whether work can be captured (begin_capture .. end_capture). Otherwise both are InternalErrors.
  virtual bool can_capture() const = 0;
  /// Starts recording instead of running. Covers work that this thread submits to `stream`, and to streams that wait
  /// for events recorded there. `stream` must wait for these streams again before end_capture.
  virtual void begin_capture(Stream& stream) = 0;
  virtual std::unique_ptr<DeviceGraph> end_capture(Stream& stream) = 0;
};

/// Makes the device of this machine's cores and memory.
std::unique_ptr<Device> make_cpu_device();

}  // namespace tessera
