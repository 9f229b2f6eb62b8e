#pragma once
// The model as the schedule sees it: parts in forward order. Each has the tensors it reads, the values it saves for
// backward, scratch, FLOPs and bytes. Nothing here computes; model/decoder.hpp does.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/backend/device_kind.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/base/id.hpp"
#include "tessera/model/architecture.hpp"

namespace tessera {

using TensorId = Id<struct ParameterTensor>;
using PartId = Id<struct Part>;

enum class Initialization : std::uint8_t { zero, one, normal };

/// One parameter tensor, under its Hugging Face name and shape (row-major).
struct ParameterTensor {
  std::string name;                 ///< "transformer.h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  ///< one or two dimensions
  std::int64_t elements = 0;
  Initialization initialization = Initialization::zero;
  double standard_deviation = 0.0;  ///< of Initialization::normal
  bool decays = false;              ///< AdamW's weight decay applies (two or more dimensions)
  bool is_table = false;            ///< vocabulary-sized: its unit does not count in shard.limit_all_gathers
};

enum class PartKind : std::uint8_t { embedding, attention, mlp, head };

/// A value that forward saves for backward (and that recompute makes again).
struct SavedTensor {
  std::string name;  ///< "qkv"
  DType dtype = DType::fp32;
  std::int64_t elements = 0;
};

/// Constants that parts read: computed once on the host (model/constants.hpp), equal on every rank.
struct ConstantTensor {
  std::string name;  ///< "rotary"
  DType dtype = DType::fp32;
  std::int64_t elements = 0;
};

/// The cost of one direction of a part per micro-batch.
struct PartCost {
  std::int64_t scratch_bytes = 0;  ///< private workspace while it runs
  std::int64_t flops = 0;          ///< of matmuls; multiply and add counted as two, causal attention its visible half
  std::int64_t bytes = 0;          ///< least memory traffic
};

/// The smallest unit of compute in a schedule.
struct Part {
  std::string name;  ///< "embed", "h.0.attn", "h.0.mlp", "head"
  PartKind kind = PartKind::embedding;
  int block = -1;                            ///< of attention and mlp parts
  std::vector<TensorId> tensors;             ///< in the order of model/part_order.hpp
  std::vector<bool> read_in_backward;        ///< per tensor: backward reads the parameter itself
  std::vector<SavedTensor> saved;            ///< in the order of model/part_order.hpp
  PartCost forward, backward, recompute;     ///< the head's `backward` is forward and backward in one (training)
  std::vector<std::int32_t> constants = {};  ///< numbers of ModelParts::constants that every direction reads
};

/// All tensors (in forward order of first use) and all parts of one model at one micro-batch shape.
struct ModelParts {
  Architecture architecture;
  std::int64_t batch = 0;               ///< sequences per micro-batch
  std::int64_t sequence = 0;            ///< tokens per sequence
  DType compute = DType::fp32;          ///< dtype of parameters as read, activations and saved values
  DType gradient = DType::fp32;         ///< dtype of parameter gradients as parts write them
  DeviceKind device = DeviceKind::cpu;  ///< the device whose kernels the scratch is for
  IndexedVector<TensorId, ParameterTensor> tensors;
  IndexedVector<PartId, Part> parts;
  std::vector<ConstantTensor> constants;

  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t residual_elements() const { return tokens() * architecture.width; }  ///< [tokens, width]
  std::int64_t parameter_count() const;
  /// Returns the FLOPs of one micro-batch's forward and backward, without recomputation.
  std::int64_t training_flops() const;
};

/// Returns the parameter inventory alone: independent of micro-batch shape and dtype. Works for every family.
IndexedVector<TensorId, ParameterTensor> parameter_tensors(const Architecture& architecture);

/// Declares the parts of a model. UsageError if the architecture is impossible (width not divisible by heads, ...), or
/// the sequence longer than its context. `gradient` (precision.reduce) decides whether the head needs an fp32
/// accumulator, `device` how much scratch the kernels need.
ModelParts declare_parts(const Architecture& architecture, std::int64_t batch, std::int64_t sequence, DType compute,
                         DType gradient = DType::fp32, DeviceKind device = DeviceKind::cpu);

}  // namespace tessera
