// The machine's cores as a device: streams are threads, memory is the process's own.

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/host_event.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/backend/device.hpp"
#include "tessera/backend/region.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

class HostMemory final : public DeviceMemory {
 public:
  HostMemory(MemoryKind kind, std::int64_t bytes) : region_(bytes) {
    // Memory that is pinned on other devices is touched here, so that pages are there from the start.
    if (kind == MemoryKind::pinned && bytes > 0) std::memset(region_.data(), 0, static_cast<std::size_t>(bytes));
  }
  std::byte* data() const override { return region_.data(); }
  std::int64_t size() const override { return region_.size(); }

 private:
  Region region_;
};

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string description() const override { return fmt::format("{} cores", allowed_cores()); }
  std::string model() const override { return "CPU"; }
  std::string identity() const override { return {}; }
  std::int64_t free_memory() const override { return usable_memory(); }
  std::int64_t total_memory() const override { return 0; }
  std::optional<std::int64_t> memory_taken() const override { return std::nullopt; }

  std::unique_ptr<Stream> make_caller_stream(const std::string& name) override { return make_serial_stream(name); }
  std::unique_ptr<Stream> make_stream(const std::string& name, StreamPriority) override {
    return make_host_stream(name);
  }
  std::unique_ptr<Event> make_event(EventUse) override { return make_host_event(); }
  std::int64_t nanoseconds_between(Event& begin, Event& end) override {
    end.synchronize();
    return host_event(end).reached_at() - host_event(begin).reached_at();
  }

  std::unique_ptr<DeviceMemory> allocate(MemoryKind kind, std::int64_t bytes) override {
    return std::make_unique<HostMemory>(kind, bytes);
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fill_by_host(std::span<const std::span<std::byte>> memory,
                    const std::function<void(std::size_t, std::span<void* const>)>& write) override {
    std::vector<void*> in_place;
    for (const std::span<std::byte> stretch : memory) in_place.push_back(stretch.data());
    write(0, in_place);
  }
  void copy(Stream&, void* to, const void* from, std::int64_t bytes) override { copy(to, from, bytes); }
  void write(Stream&, std::uint32_t& word, std::uint32_t value) override { std::atomic_ref(word).store(value); }
  void fill_nan(Stream&, std::span<std::byte> memory) override { std::ranges::fill(memory, std::byte{0xff}); }

  void enter_thread() override {}
  void begin_range(const char*) override {}
  void end_range() override {}
  bool multiplies_fp8() const override { return true; }
  bool can_capture() const override { return false; }
  void begin_capture(Stream&) override { throw InternalError("host streams cannot be captured"); }
  std::unique_ptr<DeviceGraph> end_capture(Stream&) override { throw InternalError("host streams cannot be captured"); }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace tessera
