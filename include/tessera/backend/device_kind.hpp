#pragma once
// The kinds of device that a rank can compute on, and what each means to code outside its backend. Nothing here needs
// the device itself, so a plan for GPUs needs no GPU.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// A row of the table of devices.
struct DeviceTraits {
  DeviceKind kind;
  std::string_view name;    ///< as run.device spells it
  bool has_own_memory;      ///< apart from the host's; only a process that has opened the device can query it
  bool is_accelerator;      ///< a machine has a number of them; a rank takes one, which may be busy or missing. Its
                            ///< queues run at the same time at no cost to each other
  bool uses_mpi;            ///< and shared memory for its collectives; otherwise NCCL, or staged on the host
  bool has_graphs;          ///< which replay a step (run.graph)
  bool has_library_choice;  ///< between a library's kernels and ours (run.attention), and among a library's own
  bool has_datasheet;       ///< which says its peak; otherwise the peak is measured
  bool is_deterministic;    ///< where run.deterministic is left open
  std::int64_t time_every;  ///< steps between timed steps where metrics.time_every is left open
};

inline constexpr DeviceTraits kDevices[] = {
    // kind, name, own memory, accelerator, MPI, graphs, library choice, datasheet, deterministic, steps
    {DeviceKind::cpu, "cpu", false, false, true, false, false, false, true, 1},
    {DeviceKind::cuda, "cuda", true, true, false, true, true, true, false, 50},
};

constexpr const DeviceTraits& traits_of(DeviceKind kind) { return kDevices[static_cast<std::size_t>(kind)]; }
static_assert(traits_of(DeviceKind::cpu).kind == DeviceKind::cpu &&
              traits_of(DeviceKind::cuda).kind == DeviceKind::cuda);

/// Returns "cpu" or "cuda", as run.device spells it.
constexpr std::string_view name_of(DeviceKind kind) { return traits_of(kind).name; }

}  // namespace tessera
