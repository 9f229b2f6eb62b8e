#pragma once
// A finalized operation graph as the emulated cuDNN runs it: one operation after the other. Every intermediate tensor
// lies in memory in full, rounded to its declared type.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "cuda/kernels/cudnn_abi.hpp"

namespace emulator {

using Four = std::array<std::int64_t, 4>;

struct GraphTensor {
  std::int64_t id = 0;
  Four sizes{}, strides{};
  tessera::cudnn::Data type = tessera::cudnn::Data::fp32;
  bool is_virtual = false, by_value = false;
  std::int64_t offsets = 0;  ///< id of the tensor that says where its sequences begin; 0: at multiples of a stride
};

struct GraphStep {
  tessera::cudnn::Kind kind = tessera::cudnn::Kind::matmul_operation;
  int mode = 0;  ///< of a pointwise operation or a reduction
  std::int64_t axis = 0;
  GraphTensor x, b, condition, y;    ///< a matmul's factors are x and b; an id of 0 is not there
  GraphTensor rows, columns, depth;  ///< of a matmul: how many of each sequence count; an id of 0: all
};

using GraphProgram = std::vector<GraphStep>;

/// The arguments of a program: addresses of tensors in memory, and numbers given by value.
struct GraphMemory {
  std::map<std::int64_t, void*> addresses;
  std::map<std::int64_t, float> numbers;
};

/// Whether shapes, strides and types of a step fit together.
bool is_consistent(const GraphStep& step);

/// Returns whether it is attention's backward whose last matmul makes query gradients without a sum in memory.
bool is_deterministic_backward(const GraphProgram& program);

/// Returns whether sequences have lengths and places that memory says.
bool has_lengths(const GraphProgram& program);

/// Returns whether the real library is known to have a fused kernel for the program. Known are attention forward, and
/// backward with a head of keys for every head of queries or shared ones, each with sequences of any lengths as well.
bool is_known(const GraphProgram& program);

void run(const GraphProgram& program, const GraphMemory& memory);

}  // namespace emulator
