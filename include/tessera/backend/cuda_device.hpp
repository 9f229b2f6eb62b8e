#pragma once
// NVIDIA GPUs. The implementation is chosen when a binary is linked (cmake/Cuda.cmake). A build without CUDA has the
// same functions; they report that CUDA is missing.

#include <memory>
#include <string>

#include "tessera/backend/device.hpp"

namespace tessera {

/// Returns whether this build has CUDA.
bool built_with_cuda();

/// Returns the number of GPUs that this process may use; 0 without a driver, and in a build without CUDA.
int cuda_device_count();

/// Returns why cuda_device_count() is 0, for messages: "no NVIDIA driver", ...; empty when it is not.
std::string why_no_cuda_device();

/// Returns "CUDA runtime 13.0, driver 12.8" as this build and this machine have them; empty in a build without CUDA.
std::string cuda_versions();

/// Opens GPU number `index` in [0, cuda_device_count()). UsageError when there is none.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace tessera
