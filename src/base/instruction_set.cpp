#include "tessera/base/instruction_set.hpp"

#include <array>

namespace tessera {

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
  if (is_supported(InstructionSet::avx512)) return InstructionSet::avx512;
  return is_supported(InstructionSet::avx2) ? InstructionSet::avx2 : InstructionSet::scalar;
}

}  // namespace tessera
