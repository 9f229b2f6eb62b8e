#include "tessera/base/instruction_set.hpp"

#include <array>

#include "tessera/base/environment.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

constexpr const char* kLimit = "TESSERA_MAX_CPU_ISA";

/// Returns the widest set that the user allows.
InstructionSet allowed_instruction_set() {
  const std::string value = variable(kLimit);
  if (value.empty() || value == "AVX512") return InstructionSet::avx512;
  if (value == "AVX2") return InstructionSet::avx2;
  if (value == "SCALAR") return InstructionSet::scalar;
  throw refuse(kLimit, value).use("AVX512, AVX2 or SCALAR");
}

}  // namespace

std::string name_of(InstructionSet set) {
  constexpr std::array<const char*, 3> names{"scalar", "AVX2", "AVX-512"};
  return names[static_cast<std::size_t>(set)];
}

bool is_supported(InstructionSet set) {
  if (set == InstructionSet::scalar) return true;
#if defined(__x86_64__)
  // Every processor with AVX2 and FMA converts fp16 as well (F16C is older).
  if (set == InstructionSet::avx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && is_supported(InstructionSet::avx2);
#else
  return false;
#endif
}

InstructionSet best_instruction_set() {
  static const InstructionSet best = [] {
    InstructionSet set = allowed_instruction_set();
    while (!is_supported(set)) set = static_cast<InstructionSet>(static_cast<int>(set) - 1);
    return set;
  }();
  return best;
}

}  // namespace tessera
