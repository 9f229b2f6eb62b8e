#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tessera/base/environment.hpp"
#include "tessera/base/instruction_set.hpp"

using namespace tessera;

namespace {

/// Returns an x86 processor's features as Linux names them, between spaces; empty on others. (Programs that run by qemu
/// read the names of another processor.)
std::string flags_of_processor() {
#if !defined(__x86_64__)
  return {};
#endif
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return line + " ";
  }
  return {};
}

}  // namespace

TEST_CASE("An instruction set is supported where Linux names all of its features, and the best one is the widest") {
  const std::string flags = flags_of_processor();
  const auto has = [&](std::initializer_list<const char*> names) {
    return std::ranges::all_of(
        names, [&](const std::string& name) { return flags.find(" " + name + " ") != std::string::npos; });
  };
  const bool avx2 = has({"avx2", "fma", "bmi2"});
  const bool avx512 = avx2 && has({"avx512f", "avx512bw", "avx512dq", "avx512vl"});
  CHECK(is_supported(InstructionSet::scalar));
  CHECK(is_supported(InstructionSet::avx2) == avx2);
  CHECK(is_supported(InstructionSet::avx512) == avx512);
  const InstructionSet widest = avx512 ? InstructionSet::avx512 : avx2 ? InstructionSet::avx2 : InstructionSet::scalar;
  const std::string limit = variable("TESSERA_MAX_CPU_ISA");  // tests/long.sh sets it
  const InstructionSet allowed = limit == "SCALAR" ? InstructionSet::scalar
                                 : limit == "AVX2" ? InstructionSet::avx2
                                                   : InstructionSet::avx512;
  CHECK(best_instruction_set() == std::min(widest, allowed));
}
