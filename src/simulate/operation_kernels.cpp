#include "simulate/operation_kernels.hpp"

#include "tessera/engine/bound_schedule.hpp"

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

}  // namespace

IndexedVector<OperationId, std::vector<KernelCall>> kernels_of(const StepSchedule& schedule, const MemoryPlan& plan,
                                                               const Options& options) {
  PretendedRank rank(schedule.grid);
  const Resources resources(rank, schedule.grid, nullptr, std::make_unique<RankMemory>(schedule, plan), nullptr,
                            nullptr);
  const Optimizer optimizer({options.optim, 1, schedule.policy.compute == DType::fp16}, 1);
  const BoundSchedule bound = bind(schedule, resources, optimizer);
  IndexedVector<OperationId, std::vector<KernelCall>> kernels(schedule.operations.size());
  for (const OperationId id : kernels.ids()) {
    for (const KernelArguments& kernel : bound[id].kernels) {
      if (auto call = describe(kernel)) kernels[id].push_back(std::move(*call));
    }
  }
  return kernels;
}

}  // namespace tessera
