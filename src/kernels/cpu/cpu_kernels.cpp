#include "kernels/cpu/cpu_kernels.hpp"

#include "kernels/cpu/tile_matmul.hpp"
#include "kernels/scalar_rules.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

CpuKernels::CpuKernels(ThreadPool& pool, InstructionSet set)
    : pool_(pool),
      set_(set),
      vector_(vector_kernels(set)),
      workers_(static_cast<std::size_t>(pool.threads())),
      worker_sums_(static_cast<std::size_t>(pool.threads())) {}

Implementation CpuKernels::description() const {
  Implementation all = matrix_library();
  all.text = fmt::format("{}, {}", name_of(set_), all.text);
  return all;
}

void CpuKernels::run(Stream&, const KernelArguments& call) {
  std::visit([this](const auto& a) { compute(a); }, call);
}

void CpuKernels::compute(const ParameterUpdate& a) {
  switch (a.rule) {
    case UpdateRule::adamw:
      return adamw(a);
    case UpdateRule::muon:
      return muon(a);
  }
}

void CpuKernels::compute(const AddLoss& a) { account_loss_rule(a); }

void CpuKernels::compute(const Clip& a) { clip_rule(a); }

std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool, InstructionSet set) {
  if (!is_supported(set)) {
    throw refusal("{} kernels do not run here", name_of(set))
        .because("this machine lacks the instructions")
        .use("up to {}", name_of(best_instruction_set()));
  }
  return std::make_unique<CpuKernels>(pool, set);
}

std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool) { return make_cpu_kernels(pool, best_instruction_set()); }

}  // namespace tessera
