#pragma once
// The choices that options offer, and how users spell them.

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "tessera/backend/device_kind.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/base/fp8.hpp"
#include "tessera/grid/strategy.hpp"

namespace tessera {

/// The device that run.device names; nothing (spelled "auto") while it is open.
using DeviceChoice = std::optional<DeviceKind>;
/// An answer that the user gives, or leaves to Tessera (automatic, spelled "auto"): the option says how it decides.
enum class Tristate : std::uint8_t { automatic, no, yes };
/// The type in which a loss stores its logits. compute is the type of precision.compute; fp32 replaces it where it has
/// 16 bits.
enum class LogitsPrecision : std::uint8_t { compute, fp32 };
/// The implementation of attention on a GPU; automatic: cuDNN where it is found and can do it, and Tessera's own
/// kernels elsewhere.
enum class AttentionChoice : std::uint8_t { automatic, own, cudnn };
/// How ranks on GPUs talk; automatic: NCCL.
enum class CommBackend : std::uint8_t { automatic, nccl, staged };
/// How the queues of a schedule run; automatic: see queue_mode_of.
enum class QueueMode : std::uint8_t {
  automatic,
  serial,    ///< one operation after the other, in list order: the reference
  parallel,  ///< communication on a separate thread
  chaos      ///< every communication queue on its own thread, with random delays
};
enum class Wrap : std::uint8_t { block, size, model };
/// When gradients are reduced under accumulation; by_strategy (spelled "auto"): see resolved_reduce.
enum class ReduceWhen : std::uint8_t { by_strategy, micro_step, step };
enum class ActivationCheckpointing : std::uint8_t { none, block, selective, fit };
/// The state that stays on the host: none; masters and moments; these and the parameters that are gathered.
enum class Offload : std::uint8_t { none, optimizer, params };
/// How GPUs multiply fp32 matrices: in full, or rounded to 10 bits of mantissa (TF32) for tensor cores.
enum class MatmulPrecision : std::uint8_t { fp32, tf32 };
/// The numbers that linears of blocks multiply: those of precision.compute, or these rounded to fp8.
enum class LinearPrecision : std::uint8_t { compute, fp8 };
/// Where an fp8 operand's scale comes from; current: from the operand itself.
enum class Fp8Scale : std::uint8_t { current };
/// The bytes of an id in a .bin without a header; automatic: 2, unless the numbers say otherwise.
enum class TokenBytes : std::uint8_t { automatic, two, four };
enum class SampleOrder : std::uint8_t { shuffled, sequential };
/// The answer to text that cannot be read as it stands: an error, or it is counted and left out.
enum class OnError : std::uint8_t { stop, skip };
/// The turns of a conversation in which the loss may count tokens, and what it counts there.
enum class ChatTurns : std::uint8_t { all, last };
enum class ChatCounts : std::uint8_t { assistant, all };
/// A sample is a stretch of the corpus, or it holds whole documents.
enum class Packing : std::uint8_t { stream, documents };
/// A document that is longer than a sample is cut, or left out.
enum class TooLong : std::uint8_t { cut, skip };
enum class OptimizerName : std::uint8_t { adamw, muon };
/// The type in which an optimizer keeps its states.
enum class StateType : std::uint8_t { fp32, bf16 };
constexpr DType dtype_of(StateType type) { return type == StateType::fp32 ? DType::fp32 : DType::bf16; }
/// The factor of Muon's rate: it makes updates as large as AdamW's, or follows from the linear's shape.
enum class MuonScale : std::uint8_t { match_rms_adamw, original };
enum class LearningRateSchedule : std::uint8_t { constant, cosine, linear, wsd };
enum class PlanView : std::uint8_t { table, schedule, units, timeline, fit, largest };
/// The form of what a command prints.
enum class ResultFormat : std::uint8_t { text, json };
/// The action of `tessera sweep`. `row`: the one row of an array's task, which `submit` has started.
enum class SweepAction : std::uint8_t { print, run, submit, status, retry, row };

/// The order of a sweep's rows: that of the file, or by predicted time, the shortest first.
enum class SweepOrder : std::uint8_t { file, fastest };

/// Returns the user's spelling of a choice: "hsdp-zero2", "micro_step", ...
template <class E>
requires std::is_enum_v<E> std::string_view name_of(E value);
std::string_view name_of(DeviceChoice value);

/// Resolves `shard.reduce` for a strategy.
inline ReduceWhen resolved_reduce(ReduceWhen when, Strategy strategy) {
  if (when != ReduceWhen::by_strategy) return when;
  return rules_of(strategy).reduces_each_micro_step() ? ReduceWhen::micro_step : ReduceWhen::step;
}

}  // namespace tessera
