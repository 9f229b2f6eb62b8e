// cuDNN's deterministic attention backward: deterministic runs take it, and it must show its bits twice.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "gpu_emulator/libraries/cudnn/cudnn.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

/// The emulated cuDNN, until the end of a test.
struct Library {
  explicit Library(int drifts_after = -1) {
    emulator::let_deterministic_backward_drift(drifts_after);
    emulator::take_deterministic_backwards();
  }
  ~Library() { emulator::let_deterministic_backward_drift(-1); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

Options bf16_options() {
  Options options = gpu_options();
  options.precision.compute = DType::bf16;
  options.shard.strategy = Strategy::zero2;
  return options;
}

}  // namespace

TEST_CASE("a deterministic run takes cuDNN's backward, with the same bits everywhere") {
  const Library library;
  const GpuCount gpus(2);
  Options options = bf16_options();
  CHECK_THAT(said_by_compute(options, 2).description, Contains("attention by cuDNN 9.25.0, deterministic"));
  emulator::take_deterministic_backwards();
  const RunOutcome expected = train_locally(options, tiny_gpt2(), 2, 2, {});
  CHECK(emulator::take_deterministic_backwards() > 0);
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero3}) {
    options.shard.strategy = strategy;
    CHECK(same_run(train_locally(options, tiny_gpt2(), 2, 2, {}), expected));
    CHECK(emulator::take_deterministic_backwards() > 0);
  }
  options.run.deterministic = Tristate::no;
  said_by_compute(options, 1);
  options.run.deterministic = Tristate::yes, options.run.attention = AttentionChoice::own;
  said_by_compute(options, 1);
  CHECK(emulator::take_deterministic_backwards() == 0);
}

TEST_CASE("a backward whose second play has other bits ends the run, with the option that helps") {
  const Library library(1);
  const GpuCount gpus(1);
  CHECK_THROWS_WITH(said_by_compute(bf16_options(), 1),
                    Contains("gradients differ") && Contains("run.attention = own"));
}

TEST_CASE("a run that began with own kernels' backward stays with it") {
  const Library library;
  const GpuCount gpus(2);
  const std::string table = said_by_compute(bf16_options(), 1).table;
  emulator::take_deterministic_backwards();
  // What builds said that took cuDNN's backward after a trial alone.
  std::string old = table;
  const std::string_view today = ", deterministic", then = ", its backward by own kernels (run.deterministic)";
  old.replace(old.find(today), today.size(), then);
  const std::size_t rows = old.find('\n') + 1;
  const SaidByCompute own = said_by_compute(bf16_options(), 2, old);
  CHECK_THAT(own.description, Contains(std::string(then)));
  CHECK(own.table == old);
  const std::string key = "attention 2 8 2 2 8 1 48 48 48 16 16 48 48 48 : ";
  CHECK(said_by_compute(bf16_options(), 1, std::string(old).insert(rows, key + "own 2000000 2500000 8\n")).table ==
        old);
  CHECK(emulator::take_deterministic_backwards() == 0);
  CHECK(said_by_compute(bf16_options(), 1, std::string(old).insert(rows, key + "ordered 2000000 1500000 8\n")).table ==
        table);
  CHECK(emulator::take_deterministic_backwards() > 0);
}
