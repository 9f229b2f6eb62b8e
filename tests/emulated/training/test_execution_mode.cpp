// The log of a run on GPUs before step 1: how its segments are played and why, and the memory outside its plan.
#include <catch2/catch.hpp>
#include <map>

#include "gpu_case.hpp"
#include "plan_run.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

const std::string kOnHost = "pinned on the host for collectives", kOnDevice = "on the device for collectives";

struct Said {
  std::string mode;
  Implementation description = {};
  std::map<std::string, std::int64_t> unplanned;  ///< bytes by use
  std::int64_t on_host = 0;                       ///< planned
};

Said said_by(const Options& options, std::int64_t world, const Architecture& architecture = tiny_gpt2()) {
  const PlannedRun planned = plan_run(options, architecture, world, world);
  Said said;
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    if (context.rank() != 0) return;
    said = {session.player().execution_mode(),
            session.resources().description,
            {},
            planned.plan.at(MemorySpace::host).total()};
    for (const UnplannedMemory& one : session.resources().unplanned) said.unplanned[one.use] = one.bytes;
  });
  return said;
}

}  // namespace

TEST_CASE("a run says how it drives its GPU, and what that takes outside the plan") {
  using Catch::Contains;
  const GpuCount gpus(2);
  Options options = gpu_options();
  const Said alone = said_by(options, 1);
  CHECK_THAT(alone.mode, Contains("graphs") && !Contains("eagerly"));
  CHECK_THAT(alone.description.text, Contains("emulated GPU") && Contains("cuBLASLt") && !Contains("staged"));
  CHECK(!alone.unplanned.contains(kOnDevice));
  CHECK(!alone.unplanned.contains(kOnHost));

  const Said staged = said_by(options, 2);
  CHECK_THAT(staged.mode, Contains("as graphs between staged collectives") && !Contains("eagerly"));
  CHECK_THAT(staged.description.text, Contains("staged through"));
  CHECK(!staged.unplanned.contains(kOnHost));
  CHECK(staged.on_host > alone.on_host);

  options.comm.backend = CommBackend::nccl;
  const Said nccl = said_by(options, 2);
  CHECK_THAT(nccl.mode, Contains("as graphs, except"));
  CHECK_THAT(nccl.description.text, Contains("NCCL 2."));
  CHECK(!nccl.unplanned.contains(kOnHost));
  CHECK(nccl.unplanned.at(kOnDevice) > 0);     // for barriers
  CHECK(nccl.unplanned.at(kOnDevice) < 8192);  // less than what a sum receives, which is an external workspace
  CHECK(nccl.on_host == alone.on_host);

  options.run.graph = false;
  CHECK_THAT(said_by(options, 2).mode, Contains("eagerly (run.graph = false)"));
  options.run.device = DeviceKind::cpu;
  CHECK(said_by(options, 2).mode.empty());
}

TEST_CASE("layers with a window take own kernels next to cuDNN's") {
  Options options = gpu_options();
  options.precision.compute = DType::bf16;
  Architecture architecture = small_model(Family::qwen3);
  architecture.head_dim = 8, architecture.window = 4, architecture.full_layers = {false, true};
  for (const Tristate deterministic : {Tristate::yes, Tristate::no}) {
    options.run.deterministic = deterministic;
    const std::string said = said_by(options, 1, architecture).description.text;
    CHECK_THAT(said, Catch::Contains("attention by cuDNN") && Catch::Contains("own kernels in layers with a window"));
    const RunOutcome run = train_locally(options, architecture, 1, 1);
    CHECK(run.losses.back() < run.losses.front());
  }
  architecture.window = 0, architecture.full_layers = {};
  CHECK_THAT(said_by(options, 1, architecture).description.text, !Catch::Contains("window"));
}

TEST_CASE("a run says what computes its attention, and refuses cuDNN where it cannot be had") {
  using Catch::Contains;
  Options options = gpu_options();
  Architecture architecture = tiny_gpt2();
  const auto said = [&] { return said_by(options, 1).description; };
  using Libraries = std::vector<std::pair<std::string, std::string>>;
  CHECK_THAT(said().text, Contains("attention by own kernels (cuDNN 9.25.0: fp32 storage"));
  CHECK((said().lacks_library && said().libraries == Libraries{{"cublaslt", "13.1.0"}, {"cudnn", "9.25.0"}}));
  options.precision.compute = DType::bf16;
  CHECK_THAT(said().text, Contains("attention by cuDNN 9.25.0, deterministic"));
  CHECK_FALSE(said().lacks_library);
  options.run.deterministic = Tristate::no;
  CHECK_THAT(said().text, Contains("attention by cuDNN 9.25.0") && !Contains("own kernels"));
  options.run.attention = AttentionChoice::own;
  CHECK_THAT(said().text, Contains("attention by own kernels (run.attention = own)"));
  CHECK((!said().lacks_library && said().libraries == Libraries{{"cublaslt", "13.1.0"}}));
  options.run.attention = AttentionChoice::cudnn;
  CHECK_THAT(said().text, Contains("attention by cuDNN 9.25.0"));
  options.precision.compute = DType::fp32;
  CHECK_THROWS_WITH(said(), Contains("run.attention = cudnn") && Contains("fp32 storage"));
  options.precision.compute = DType::bf16;
  architecture.dropout = options.model.dropout = 0.1;
  CHECK_THROWS_WITH(train_locally(options, architecture, 1, 1), Contains("masks of dropout are our own"));
}
