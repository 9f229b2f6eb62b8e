#pragma once
// The kernel interface: every operation that a model or the engine computes with, on one device. A call is a value, one
// of the structs in kernels/arguments.hpp. CPU: calls run at once on the calling thread and a ThreadPool; the stream
// only says whose work it is. CUDA: calls launch on stream.native() and return.
//
// Contract of all of them:
//   - Storage may be fp32, bf16 or fp16; arithmetic is fp32, and a value is rounded (nearest even) when it is stored.
//   - The same inputs, shapes, dtypes and instruction set give the same bits: on any number of threads, in any process.
//   - Nothing is allocated; memory that grows with the problem comes in as `scratch` (sizes: kernels/needs.hpp).
//   - Buffers do not overlap unless an argument says that they may.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/instruction_set.hpp"
#include "tessera/kernels/arguments.hpp"

namespace tessera {

class Stream;
class ThreadPool;

using KernelArguments =
    std::variant<EmbeddingForward, EmbeddingBackward, NormForward, NormBackward, ToFp8, LargestMagnitude, ToCodes,
                 LinearForward, LinearBackward, GeluForward, AttentionForward, AttentionBackward, AttentionCached,
                 Rotate, GluForward, GluBackward, HeadLoss, ApplyDropout, Cast, FillZero, Add, SquareSum, AddChecksum,
                 ParameterUpdate, MuonDirection, Orthogonalize, AddLoss, Clip>;

/// The hardware and libraries that compute.
struct Implementation {
  std::string text = {};                                            ///< for the log: "AVX-512, oneDNN 2.6.3"
  std::vector<std::pair<std::string, std::string>> libraries = {};  ///< for provenance: {"onednn", "2.6.3"}
  bool lacks_library = false;  ///< a GPU's attention is by own kernels, though a library was allowed
};

class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual void run(Stream& stream, const KernelArguments& call) = 0;
  virtual Implementation description() const = 0;
};

/// Makes kernels on this machine's cores. `pool` must outlive them. Allocates their workspace once. Element-wise
/// results, norms and AdamW have the same bits on all instruction sets; matmuls are oneDNN's, which chooses by itself.
std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool);
/// Makes kernels with a chosen instruction set (tests); UsageError if the machine lacks it.
std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool, InstructionSet set);

}  // namespace tessera
