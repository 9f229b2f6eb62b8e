#pragma once
// The step's scalars on a GPU: one thread each, because they are a few hundred operations (kernels/scalar_rules.hpp).

#include <cuda_runtime_api.h>

#include "tessera/kernels/arguments.hpp"

namespace tessera {

void launch_account_loss(cudaStream_t stream, const AccountArguments& a);
void launch_clip(cudaStream_t stream, const ClipArguments& a);

}  // namespace tessera
