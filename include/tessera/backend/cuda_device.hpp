#pragma once
// GPUs of NVIDIA. Which code stands behind these functions is decided when a binary is linked (cmake/Cuda.cmake): in a
// build without CUDA they are there too, and say so.

#include <memory>
#include <string>

#include "tessera/backend/device.hpp"

namespace tessera {

/// Whether this build has CUDA.
bool built_with_cuda();

/// How many GPUs this process may use; 0 without a driver, and in a build without CUDA.
int cuda_device_count();

/// Why cuda_device_count() is 0, for messages: "no NVIDIA driver", ...; empty when it is not.
std::string why_no_cuda_device();

/// "CUDA runtime 13.0, driver 12.8" as this build and this machine have them; empty in a build without CUDA.
std::string cuda_versions();

/// The GPU with number `index` in [0, cuda_device_count()), ready to use. UsageError when there is none.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace tessera
