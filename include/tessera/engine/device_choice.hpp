#pragma once
// Which device a rank computes on: run.device, and which of a machine's GPUs.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tessera/backend/device.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// What run.device comes to on this machine: `auto` takes a GPU if there is one. UsageError for `cuda` without CUDA in
/// this build, a driver or a GPU.
DeviceChoice resolved_device(DeviceChoice choice);

/// Why a machine whose NVIDIA driver runs computes on the CPU: a sentence for the user. A build without CUDA says so
/// whatever was asked, because a run's config.ini asks for `cpu` where the run could do nothing else; a build with CUDA
/// (an old driver, a hidden GPU) only where the choice was left open. Empty if a GPU is used, was not asked for, or
/// there is no such driver. `root`: of the file system.
std::string unused_gpu(DeviceChoice asked, DeviceChoice used, const std::filesystem::path& root = "/");

/// Opens this rank's device. On a machine with as many GPUs as ranks or more, GPU i is rank i's (counted among the
/// ranks of the machine); where a process sees only one GPU, that one. UsageError when two ranks of a machine come to
/// one GPU and `share` does not allow it. Collective over the world.
std::unique_ptr<Device> open_device(RankContext& context, DeviceKind kind, bool share);

/// How many ranks have opened the GPU that this rank has opened. Collective over the world.
std::int64_t ranks_on(RankContext& context, const Device& device);

}  // namespace tessera
