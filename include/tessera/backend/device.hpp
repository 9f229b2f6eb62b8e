#pragma once
// What computes and what memory it has, behind one interface: the cores of this machine, or one GPU. The engine drives
// both with the same code.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tessera/backend/device_kind.hpp"
#include "tessera/backend/stream.hpp"

namespace tessera {

/// Who reaches a piece of memory.
enum class MemoryKind : std::uint8_t {
  device,  ///< where the device computes
  pinned,  ///< host memory that the device copies from and to by itself; its pages are there from the start
};

/// An allocation, freed with the object; zeroed, and aligned to 256 bytes at least.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::int64_t size() const = 0;
};

/// Work that was captured on streams once and is launched as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void launch(Stream& stream) = 0;
  /// Kernels, copies and other nodes in it.
  virtual std::int64_t nodes() const = 0;
};

/// Whose work a GPU takes up first where two streams have some: collectives go before compute, which would otherwise
/// hold them back by every block that it has waiting.
enum class StreamPriority : std::uint8_t { normal, high };

/// What an event is for: order alone, or also the time between two of them.
enum class EventUse : std::uint8_t { order, timing };

/// One device of one rank. Memory and streams are made at start and no more after it. It must outlive what it made.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  /// For the log: "8 cores", "NVIDIA H200, 139 GiB, sm_90, driver 12.8".
  virtual std::string description() const = 0;
  /// What kind of device it is, the same where the same arithmetic can be expected: "NVIDIA H200, sm_90".
  virtual std::string model() const = 0;
  /// Names the device itself, the same for every rank that uses it ("GPU-2f0c..."); empty on the CPU.
  virtual std::string identity() const = 0;
  /// Bytes that this process may still take of the device's memory, and all there are; 0 where that is not known.
  virtual std::int64_t free_memory() const = 0;
  virtual std::int64_t total_memory() const = 0;
  /// How much more of a GPU's memory is in use than when it was opened, by whomever; -1 on the CPU.
  virtual std::int64_t memory_taken() const = 0;

  /// A stream for the work of the calling thread. CPU: it runs there at once. GPU: a stream like others.
  virtual std::unique_ptr<Stream> make_caller_stream(const std::string& name) = 0;
  /// A stream whose work runs beside the caller (CPU: on a thread of its own). On a CPU they differ in nothing but
  /// name.
  virtual std::unique_ptr<Stream> make_stream(const std::string& name,
                                              StreamPriority priority = StreamPriority::normal) = 0;
  virtual std::unique_ptr<Event> make_event(EventUse use = EventUse::order) = 0;
  /// Nanoseconds from `begin` to `end`, two timing events of this device; waits for `end`.
  virtual std::int64_t nanoseconds_between(Event& begin, Event& end) = 0;

  /// UsageError when there is not so much memory left.
  virtual std::unique_ptr<DeviceMemory> allocate(MemoryKind kind, std::int64_t bytes) = 0;

  /// Copies between device and host (or within either) and returns when it is done. It waits for no stream: the caller
  /// sees to it that nothing is writing there.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  /// Has the host fill `bytes` of device memory: `write` gets that memory itself where the host reaches it (CPU), else
  /// a buffer that is copied afterwards. Returns when it is done.
  virtual void fill_by_host(void* memory, std::int64_t bytes, const std::function<void(void* host)>& write) = 0;
  /// The same as copy() as a stream's work, called where its tasks are (as kernels are): on the CPU it happens at once,
  /// on a GPU it is enqueued; then host memory must be pinned, and stay as it is until the copy is done.
  virtual void copy(Stream& stream, void* to, const void* from, std::int64_t bytes) = 0;
  /// fill_pattern (backend/region.hpp) over device memory, as a stream's work.
  virtual void fill_pattern(Stream& stream, std::span<std::byte> memory) = 0;
  /// tessera::touched_bytes (backend/region.hpp) over device memory; returns when it is known. Nobody may write there
  /// meanwhile.
  virtual std::int64_t touched_bytes(std::span<const std::byte> memory, std::int64_t offset) = 0;

  /// Makes this the device of the calling thread; every thread that calls anything here does it first.
  virtual void enter_thread() = 0;

  /// Names what this thread submits until the range ends, for profilers (NVTX). Ranges nest. Nothing on the CPU.
  virtual void begin_range(const char* name) = 0;
  virtual void end_range() = 0;

  /// Whether work can be captured (begin_capture .. end_capture). On a device that cannot, both are InternalErrors.
  virtual bool can_capture() const = 0;
  /// From here on, what this thread submits to `stream`, and to streams that wait for events recorded there, is not run
  /// but recorded. These streams must be waited for by `stream` again before end_capture.
  virtual void begin_capture(Stream& stream) = 0;
  virtual std::unique_ptr<DeviceGraph> end_capture(Stream& stream) = 0;
};

/// This machine's cores and memory.
std::unique_ptr<Device> make_cpu_device();

}  // namespace tessera
