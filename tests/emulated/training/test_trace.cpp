// run.trace on GPUs: spans by events around operations, placed by the host's clock.

#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "temporary_folder.hpp"
#include "training/trace_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("a step that would be replayed is traced: each operation once, streams that do not overlap, equal sums") {
  const GpuCount gpus(2);
  for (const CommBackend backend : {CommBackend::staged, CommBackend::nccl}) {
    for (const QueueMode mode : {QueueMode::parallel, QueueMode::serial}) {
      INFO("backend " << static_cast<int>(backend) << ", queues " << static_cast<int>(mode));
      const TemporaryFolder folder;
      Options options = gpu_options();
      options.comm.backend = backend;
      options.run.queues = mode;
      options.run.trace = {3, 4};
      options.train.accumulation = 2;
      const TracedRun run = traced_run(options, tiny_gpt2(), 2, 4, folder / "trace");
      std::vector<ReadSpan> spans = spans_of(read_trace(run.path));
      for (const std::int64_t rank : {0, 1, 2}) CHECK(wrong_counts(spans, rank, run.planned.schedule, 3, 4) == 0);
      CHECK(overlaps(spans, [](const ReadSpan& s) { return s.process * 100 + s.row; }) == 0);
      std::erase_if(spans, [](const ReadSpan& s) { return s.process == 2; });
      CHECK(overlaps(spans, [](const ReadSpan& s) { return s.process * 100 + s.number("stream"); }) == 0);
      for (const std::int64_t rank : {0, 1}) check_sums(spans, run, rank, 3, 4);
    }
  }
}
