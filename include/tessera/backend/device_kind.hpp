#pragma once
// Which kind of device a rank computes on. Sizes that depend on it (kernel scratch) are functions of it alone, so that
// a plan for GPUs needs no GPU.

#include <cstdint>
#include <string_view>

namespace tessera {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// "cpu" or "cuda", as run.device spells it.
constexpr std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::cuda ? "cuda" : "cpu"; }

}  // namespace tessera
