#pragma once
// The vector instructions for which kernels are compiled, and which of them this processor has.

#include <cstdint>
#include <string>

namespace tessera {

/// avx2: AVX2, FMA, BMI2 and F16C. avx512: F, BW, DQ and VL, and those of avx2.
enum class InstructionSet : std::uint8_t { scalar, avx2, avx512 };

std::string name_of(InstructionSet set);
bool is_supported(InstructionSet set);
/// Returns the widest set that the processor supports and the environment variable TESSERA_MAX_CPU_ISA (AVX512, AVX2
/// or SCALAR; as oneDNN's ONEDNN_MAX_CPU_ISA does for matmuls) allows. UsageError for another value of it.
InstructionSet best_instruction_set();

}  // namespace tessera
