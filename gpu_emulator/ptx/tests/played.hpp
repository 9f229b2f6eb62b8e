#pragma once
// Small programs in PTX, played on host memory.

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu_emulator/ptx/warp.hpp"

namespace ptx::testing {

/// The launch of a program: threads, order, dynamic shared memory.
struct Mode {
  std::int64_t threads = 32;
  std::uint64_t seed = 0;
  std::int64_t dynamic_shared = 0;
  std::int64_t blocks = 1;
};

/// Plays `body` (registers %p, %rs, %r, %rd, %f, %fd are declared) with the address of `memory` in %rd1, and returns
/// its contents afterwards. `globals`: the text before the kernel.
template <class T>
std::vector<T> played(const std::string& body, std::vector<T> memory, const Mode& mode = {},
                      const std::string& globals = {}) {
  const std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n" + globals +
                           "\n.visible .entry program(.param .u64 memory)\n{\n.reg .b64 %rd<99>;\n"
                           "ld.param.u64 %rd1, [memory];\n" +
                           body + "\nret;\n}\n";
  Module module(text);
  Launch launch;
  launch.kernel = module.kernel("program");
  launch.grid.x = mode.blocks, launch.block.x = mode.threads;
  launch.dynamic_shared = mode.dynamic_shared;
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  launch.parameters.resize(sizeof address);
  std::memcpy(launch.parameters.data(), &address, sizeof address);
  play(launch, mode.seed);
  return memory;
}

/// The message of the fault that the program ends with; empty for none.
inline std::string fault_of(const std::string& body, const Mode& mode = {}, const std::string& globals = {}) {
  try {
    played<std::uint32_t>(body, std::vector<std::uint32_t>(4096), mode, globals);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return {};
}

/// %rd2 = the thread's own 4 bytes of memory, %r1 = its number in the block.
inline const char* const kOwnPlace = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;\n";

}  // namespace ptx::testing
