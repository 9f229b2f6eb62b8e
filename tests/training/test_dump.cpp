#include "file_support.hpp"
#include "plan_run.hpp"
#include "session_case.hpp"
#include "tessera/files/io_thread.hpp"
#include "tessera/training/dump.hpp"

using namespace tessera;
using namespace tessera::testing;
using tessera::test::TemporaryFolder;

namespace {

/// The tensors of a group of a dump.
std::vector<std::vector<float>> read_dump(const Hdf5File& file, const char* group,
                                          const IndexedVector<TensorId, ParameterTensor>& tensors) {
  std::vector<std::vector<float>> all;
  for (const ParameterTensor& tensor : tensors) {
    const auto array = Hdf5Array<float>::open(file.id(), fmt::format("{}/{}", group, tensor.name));
    CHECK(array.shape() == tensor.shape);
    all.emplace_back(static_cast<std::size_t>(array.elements()));
    array.read(0, all.back());
  }
  return all;
}

/// Trains one step and dumps it; returns the tensors as the ranks have them.
RunOutcome dumped(const Options& options, std::int64_t world, const std::filesystem::path& path) {
  const PlannedRun planned = plan_run(options, small_gpt2(), world, world);
  RunOutcome outcome = empty_outcome(planned);
  std::mutex mutex;
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    std::unique_ptr<IoThread> io;
    if (context.rank() == 0) io = std::make_unique<IoThread>();
    StepDump dump(
        session, context, [&](const std::function<void()>& task) { io->run(task); }, path);
    const StepResult& result = session.train_step([&] {
      dump.write_gradients();
      const std::lock_guard lock(mutex);
      collect_gradients(planned.schedule, session.resources(), outcome.gradients);
    });
    if (std::filesystem::exists(path)) throw InternalError("{} before the step's end", path.string());
    context.control().barrier();
    dump.write_weights(1, result);
    const std::lock_guard lock(mutex);
    collect_weights(planned.schedule, session.resources(), outcome.weights);
    if (context.rank() == 0) outcome.losses = {result.loss}, outcome.norms = {result.grad_norm};
  });
  return outcome;
}

}  // namespace

TEST_CASE("a dump holds every gradient and weight of the step, of all ranks, bit for bit") {
  Options options = base_options();
  options.optim.warmup_steps = 0;
  for (const auto& [strategy, world] :
       {std::pair(Strategy::zero3, 3), std::pair(Strategy::hsdp, 4), std::pair(Strategy::ddp, 2)}) {
    options.shard.strategy = strategy;
    options.shard.group_size = strategy == Strategy::hsdp ? 2 : 0;
    INFO(name_of(strategy) << " on " << world);
    const TemporaryFolder folder;
    const RunOutcome ranks = dumped(options, world, folder / "dump.h5");
    const auto tensors = plan_run(options, small_gpt2(), world, world).schedule.model.tensors;
    const Hdf5File file = Hdf5File::open(folder / "dump.h5");
    CHECK(hdf5_read_attribute<std::int64_t>(file.id(), "step") == 1);
    CHECK(hdf5_read_attribute<double>(file.id(), "loss") == ranks.losses.at(0));
    CHECK(hdf5_read_attribute<double>(file.id(), "grad_norm") == ranks.norms.at(0));
    const std::vector<std::vector<float>>& weights = ranks.weights;
    const std::vector<std::vector<float>>& gradients = ranks.gradients;
    CHECK(read_dump(file, "weights", tensors) == weights);
    CHECK(read_dump(file, "gradients", tensors) == gradients);
  }
}

TEST_CASE("a dump's gradients are without fp16's loss scale") {
  const TemporaryFolder folder;
  double sums[2] = {};
  for (const DType dtype : {DType::fp32, DType::fp16}) {
    Options options = base_options();
    options.precision.compute = options.precision.reduce = dtype;
    const auto path = folder / std::string(name_of(dtype));
    dumped(options, 1, path);
    const Hdf5File file = Hdf5File::open(path);
    for (const auto& tensor :
         read_dump(file, "gradients", plan_run(options, small_gpt2(), 1, 1).schedule.model.tensors))
      for (const float value : tensor) sums[dtype == DType::fp16 ? 1 : 0] += std::abs(value);
  }
  CHECK(sums[1] == Approx(sums[0]).epsilon(0.05));
}
