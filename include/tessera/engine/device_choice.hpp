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
/// says so whatever was asked, because a run's config.ini asks for `cpu` where the run could do nothing else. A build
/// with CUDA (an old driver, a hidden GPU) says so only where the choice was left open. Empty if a GPU is used, was not
/// asked for, or there is no such driver. `root`: of the file system.
std::string unused_gpu(DeviceChoice asked, DeviceKind used, const std::filesystem::path& root = "/");

}  // namespace tessera
