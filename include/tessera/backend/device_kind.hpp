#pragma once
// The kind of device that a rank computes on. Sizes that depend on it (kernel scratch) depend on nothing else of the
// device, so a plan for GPUs needs no GPU.

#include <cstdint>
#include <string_view>

namespace tessera {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// Returns "cpu" or "cuda", as run.device spells it.
constexpr std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::cuda ? "cuda" : "cpu"; }

}  // namespace tessera
