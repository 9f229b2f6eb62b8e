#pragma once
// Sessions on emulated GPUs, small: threads of a GPU are fibers there.

#include "gpu_emulator/runtime/enqueue.hpp"
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

/// That many emulated GPUs, until the end of a test.
class GpuCount {
 public:
  explicit GpuCount(int count) { emulator::set_device_count(count); }
  ~GpuCount() { emulator::set_device_count(1); }
  GpuCount(const GpuCount&) = delete;
  GpuCount& operator=(const GpuCount&) = delete;
};

}  // namespace tessera::testing
