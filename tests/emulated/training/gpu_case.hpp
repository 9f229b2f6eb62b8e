#pragma once
// Sessions on emulated GPUs, small: threads of a GPU are fibers there.

#include "gpu_emulator/runtime/enqueue.hpp"
#include "plan_run.hpp"
#include "training/session_case.hpp"

namespace tessera::testing {

inline Options gpu_options() {
  Options options = base_options();
  options.run.device = DeviceKind::cuda;
  options.run.deterministic = Tristate::yes;
  options.train.steps = 4;  // two that are timed, one that is captured, one that is replayed
  options.train.seq_len = 5;
  options.train.eval_batches = 6;  // rounds enough for two ranks to capture and replay them
  options.comm.backend = CommBackend::staged;
  return options;
}

inline Architecture tiny_gpt2() {
  Architecture a = small_gpt2();
  a.heads = a.kv_heads = 2;
  a.width = 16;
  a.ffn_width = 24;
  a.vocab = 37;
  return a;
}

/// Returns whether two runs ended with the same bits.
inline bool same_run(const RunOutcome& a, const RunOutcome& b) {
  return a.losses == b.losses && a.norms == b.norms && a.weights == b.weights && a.evaluations == b.evaluations;
}

struct SaidByCompute {
  std::string table, description;
};

/// Trains one step and evaluates, and returns what the last rank's session says of its algorithms and its attention.
/// `kept`: rank 0's table of an earlier part of the run.
inline SaidByCompute said_by_compute(const Options& options, std::int64_t world, const std::string& kept = "",
                                     const Architecture& architecture = tiny_gpt2()) {
  const PlannedRun planned = plan_run(options, architecture, world, world);
  SaidByCompute said;
  run_ranks(world, world, [&](RankContext& context) {
    const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
    MachineShape machine;
    if (context.rank() == 0) machine.algorithms = kept;
    TrainingSession session(context, options, planned, data, machine);
    session.train_step();
    session.evaluate(1);
    if (context.rank() + 1 != world) return;
    const RankCompute& compute = *session.resources().compute;
    said = {compute.gemm_algorithms(), compute.description().text};
  });
  return said;
}

/// That many emulated GPUs, until the end of a test.
class GpuCount {
 public:
  explicit GpuCount(int count) { emulator::set_device_count(count); }
  ~GpuCount() { emulator::set_device_count(1); }
  GpuCount(const GpuCount&) = delete;
  GpuCount& operator=(const GpuCount&) = delete;
};

}  // namespace tessera::testing
