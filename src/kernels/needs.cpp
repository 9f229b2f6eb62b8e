#include "tessera/kernels/needs.hpp"

#include "kernels/cpu/layouts.hpp"
#include "kernels/gpu/layouts.hpp"

namespace tessera {

const KernelNeeds& kernel_needs(DeviceKind device) {
  return device == DeviceKind::cuda ? gpu_kernel_needs() : cpu_kernel_needs();
}

}  // namespace tessera
