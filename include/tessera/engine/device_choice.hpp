#pragma once
// Which kind of device ranks compute on: run.device.

#include <filesystem>
#include <string>

#include "tessera/config/options.hpp"

namespace tessera {

/// Resolves run.device on this machine: `auto` takes a GPU if there is one. Throws UsageError for `cuda` without CUDA
/// in this build, a driver or a GPU.
DeviceKind resolved_device(DeviceChoice choice);

/// Returns why a machine whose NVIDIA driver runs computes on the CPU: a sentence for the user. A build without CUDA
/// always says so, because a run's config.ini asks for `cpu` even where the run could do nothing else. A build with
/// CUDA (an old driver, a hidden GPU) says so only if the choice was left open. Empty if a GPU is used or was not asked
/// for, or if there is no such driver. `root`: of the file system.
std::string unused_gpu(DeviceChoice asked, DeviceKind used, const std::filesystem::path& root = "/");

}  // namespace tessera
