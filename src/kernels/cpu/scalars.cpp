#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/scalar_rules.hpp"

namespace tessera {

void CpuKernels::accumulate_loss(Stream&, const AccountArguments& a) { account_loss_rule(a); }

void CpuKernels::clip(Stream&, const ClipArguments& a) { clip_rule(a); }

}  // namespace tessera
