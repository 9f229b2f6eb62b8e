#include "simulate/operation_kernels.hpp"

#include "tessera/engine/operation_runner.hpp"

namespace tessera {

namespace {

/// A rank that is alone in its process, and speaks to nobody.
class PretendedRank final : public RankContext {
 public:
  explicit PretendedRank(const ProcessGrid& grid) : grid_(grid) {}
  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return grid_.world(); }
  std::int64_t ranks_per_node() const override { return grid_.ranks_per_node(); }
  const std::string& host() const override { return host_; }
  ControlPlane& control() override { throw nobody(); }
  FailureNotice& notice() override { throw nobody(); }
  MemoryExchange& memory() override { throw nobody(); }
  std::unique_ptr<Transport> open_transport(const std::vector<std::int64_t>&) override { throw nobody(); }

 private:
  static InternalError nobody() { return InternalError("a pretended rank has no peers"); }
  const ProcessGrid& grid_;
  std::string host_ = "nowhere";
};

/// Collectives are priced by their operation, so that a call has nothing to add.
class SilentCommunicator final : public Communicator {
 public:
  explicit SilentCommunicator(std::int64_t size) : size_(static_cast<int>(size)) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  void all_gather(Stream&, void*, std::int64_t, DType) override {}
  void reduce_scatter(Stream&, const void*, DType, void*, DType, std::int64_t) override {}
  void all_reduce(Stream&, std::int64_t*, std::int64_t, Reduction) override {}
  void broadcast(Stream&, void*, std::int64_t, int) override {}
  void exchange(Stream&, const void*, void*, std::span<const ExchangeRun>, DType) override {}
  void barrier(Stream&) override {}
  CommunicationCount count(Collective) const override { return {}; }

 private:
  int size_;
};

/// Kernels that are not run: their calls are noted.
struct NotedKernels final : Kernels {
  void run(Stream&, const KernelArguments& call) override {
    if (const auto known = describe(call)) calls->push_back(*known);
  }
  std::string description() const override { return "noted"; }
  std::vector<KernelCall>* calls = nullptr;
};

class NotedCompute final : public RankCompute {
 public:
  explicit NotedCompute(NotedKernels& kernels) : RankCompute(1, 1), kernels_(kernels) {}
  Kernels& kernels(Queue) const override { return kernels_; }
  void copy(Queue, Stream&, void*, const void*, std::int64_t) const override {}
  std::string description() const override { return kernels_.description(); }

 private:
  NotedKernels& kernels_;
};

}  // namespace

IndexedVector<OperationId, std::vector<KernelCall>> kernels_of(const StepSchedule& schedule, const MemoryPlan& plan,
                                                               const Options& options) {
  PretendedRank rank(schedule.grid);
  NotedKernels noted;
  auto communicators = std::make_unique<Communicators>(nullptr);
  for (const QueueGroup& key : wanted_communicators(schedule))
    communicators->add(key, std::make_unique<SilentCommunicator>(schedule.grid.size(key.second)));
  const Resources resources(rank, schedule.grid, make_cpu_device(), std::make_unique<RankMemory>(schedule, plan),
                            std::make_unique<NotedCompute>(noted), std::move(communicators));
  const Optimizer optimizer({options.optim, 1, schedule.policy.compute == DType::fp16}, 1);
  const BoundSchedule bound = bind(schedule, resources, optimizer);
  OperationRunner runner(schedule, bound, resources, optimizer, 1);
  const auto stream = resources.device->make_caller_stream("noted");
  IndexedVector<OperationId, std::vector<KernelCall>> kernels(schedule.operations.size());
  for (const OperationId id : kernels.ids()) {
    if (takes_input(schedule.operation(id))) continue;
    noted.calls = &kernels[id];
    runner.run(id, *stream);
  }
  return kernels;
}

}  // namespace tessera
