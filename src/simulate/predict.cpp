#include "tessera/simulate/predict.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "simulate/operation_kernels.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/engine/operation_log.hpp"

namespace tessera {

namespace {

/// The parts of a machine that a step can be limited by.
enum class Limit : std::uint8_t { compute, memory, link, host };
constexpr std::array<std::string_view, 4> kLimits = {"compute", "memory bandwidth", "link", "host"};

struct Price {
  double seconds = 0;
  double asleep = 0;  ///< seconds at the end of a slowed collective or copy
  double error = 0;   ///< seconds
  std::array<double, kLimits.size()> limits{};
};

/// As the run itself decides (queue_mode_of), where that is known. Elsewhere as on cores without one to spare, because
/// a cluster file does not say how many a node has.
QueueMode queues_of(const Options& options, const Cluster& cluster) {
  if (options.run.queues != QueueMode::automatic) return options.run.queues;
  const bool sleeps = options.comm.emulate.on() || options.memory.emulate_copies.on();
  return traits_of(cluster.device).is_accelerator || sleeps ? QueueMode::parallel : QueueMode::serial;
}

class Pricing {
 public:
  Pricing(const StepSchedule& schedule, const Options& options, const Cluster& cluster)
      : schedule_(schedule),
        neighbours_(std::min(schedule.grid.world(), schedule.grid.ranks_per_node())),
        options_(options),
        cluster_(cluster) {}

  Price of(const Operation& op, const std::vector<KernelCall>& kernels) const {
    Price price;
    for (const KernelCall& call : kernels) add_kernel(op, call, price);
    if (schedule_.communicates(op)) add_collective(op, price);
    if (const std::int64_t bytes = copied_bytes(schedule_, op); bytes > 0) add_copy(op, bytes, price);
    return price;
  }

 private:
  void add(std::string_view name, const WorkSize& size, Limit limit, Price& price, double share = 1,
           double least = 0) const {
    const PriceTable& table = cluster_.price(name);
    const double busy = share * table.seconds(size), seconds = std::max(busy, least);
    price.asleep += seconds - busy;
    price.seconds += seconds;
    price.error += seconds * table.uncertainty;
    price.limits[static_cast<std::size_t>(limit)] += seconds;
  }

  void add_kernel(const Operation& op, const KernelCall& call, Price& price) const {
    const bool on_host = op.queue == Queue::host;
    WorkSize size = of_rank();
    for (std::size_t i = 0; i < call.sizes.size(); ++i) size[i] = size[i + 3] = static_cast<double>(call.sizes[i]);
    size[static_cast<std::size_t>(PriceAxis::flops)] = call.cost.flops;
    size[static_cast<std::size_t>(PriceAxis::bytes)] = call.cost.bytes;
    double share = 1;
    if (call.is<LinearBackward>()) {  // priced with both gradients, which may come one at a time
      const double both = 4.0 * size[0] * size[1] * size[2];
      share = call.cost.flops / both;
      size[static_cast<std::size_t>(PriceAxis::flops)] = both;
    }
    const bool is_matmul = call.group != KernelGroup::other && call.group != KernelGroup::attention;
    if (is_matmul && is_untimed()) share *= cluster_.untimed_matmuls;
    if (call.is_fp8) share *= cluster_.fp8_matmuls;
    if (call.is<AttentionBackward>() && attention_of(call) == GpuAttention::deterministic_cudnn)
      share *= cluster_.deterministic_attention;
    if (call.group == KernelGroup::attention && schedule_.model.most_documents > 0 &&
        attention_of(call) != GpuAttention::own)
      share *= cluster_.documents_attention;
    const PricedBy by = on_host ? PricedBy::host : is_own_attention(call) ? PricedBy::own : PricedBy::device;
    KernelCall priced = call;
    if (call.makes_fp8()) {  // memory limits them all
      if (call.dtype == DType::e4m3) priced.dtype = schedule_.policy.compute;
      if (!cluster_.prices.contains(price_name(priced, by))) priced.name = describe(Cast{})->name;
    }
    add(price_name(priced, by), size,
        on_host                            ? Limit::host
        : call.group == KernelGroup::other ? Limit::memory
                                           : Limit::compute,
        price, share);
  }

  WorkSize of_rank() const {
    WorkSize size{};
    size[static_cast<std::size_t>(PriceAxis::ranks)] = static_cast<double>(neighbours_);
    return size;
  }

  bool is_untimed() const {
    const RunOptions& run = options_.run;
    return traits_of(cluster_.device).has_library_choice && is_deterministic(run) && run.algorithms.empty();
  }

  /// Whether attention is by own kernels where a library has some, too.
  bool is_own_attention(const KernelCall& call) const {
    return call.group == KernelGroup::attention && traits_of(cluster_.device).has_library_choice &&
           attention_of(call) == GpuAttention::own;
  }

  /// Whose kernels compute an attention. cuDNN is given no windows (cudnn_obstacle()).
  GpuAttention attention_of(const KernelCall& call) const {
    return call.has_window ? GpuAttention::own : schedule_.model.attention;
  }

  void add_collective(const Operation& op, Price& price) const {
    WorkSize size{};
    size[static_cast<std::size_t>(PriceAxis::bytes)] = static_cast<double>(op.wire_bytes);
    size[static_cast<std::size_t>(PriceAxis::ranks)] = static_cast<double>(schedule_.grid.size(op.group));
    // A slowed collective sleeps most of its time, and compute waits for it, so its thread finds a core.
    const bool is_disturbed = queues_of(options_, cluster_) != QueueMode::serial && !options_.comm.emulate.on();
    add(price_name(op.kind, schedule_.grid.within_node(op.group)), size, Limit::link, price,
        is_disturbed ? cluster_.collectives_under_compute : 1, options_.comm.emulate.seconds(op.wire_bytes));
  }

  void add_copy(const Operation& op, std::int64_t bytes, Price& price) const {
    WorkSize size = of_rank();
    size[static_cast<std::size_t>(PriceAxis::bytes)] = static_cast<double>(bytes);
    add(price_name(op.kind), size, Limit::link, price, 1, options_.memory.emulate_copies.seconds(bytes));
  }

  const StepSchedule& schedule_;
  const std::int64_t neighbours_;  ///< ranks that work on the node, with this one
  const Options& options_;
  const Cluster& cluster_;
};

QueueRules rules_of(const Options& options, const Cluster& cluster) {
  return {traits_of(cluster.device).is_accelerator,
          queues_of(options, cluster),
          traits_of(cluster.device).has_graphs && options.run.graph,
          cluster.issue,
          cluster.segment,
          cluster.step,
          cluster.compute_under_collectives,
          cluster.compute_under_copies,
          cluster.host_under_copies};
}

constexpr std::array kExposed = {TimeCategory::exposed_gather, TimeCategory::exposed_reduce_scatter,
                                 TimeCategory::exposed_all_reduce, TimeCategory::exposed_other};

/// Returns the part of the machine to which most of a step's time goes. `waits`: of compute, by what it waited for.
std::string_view limit_of(const IndexedVector<OperationId, Price>& prices, const Timeline& timeline,
                          const std::array<double, kTimeCategories>& waits) {
  std::array<double, kLimits.size()> seconds{};
  for (const TimelineSpan& span : timeline.spans) {
    if (span.stream != 0) continue;
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += prices[span.operation].limits[i];
  }
  for (const TimeCategory category : kExposed)
    seconds[static_cast<std::size_t>(Limit::link)] += waits[static_cast<std::size_t>(category)];
  seconds[static_cast<std::size_t>(Limit::host)] += timeline.host;
  return kLimits[static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin())];
}

}  // namespace

Options on_cluster(Options options, const Cluster& cluster, std::int64_t ranks) {
  const DeviceChoice asked = options.run.device;
  if (asked && *asked != cluster.device)
    throw refuse("run.device", name_of(*asked))
        .because("{} has the prices of {}", cluster.file, name_of(cluster.device))
        .hint("Leave it out");
  options.run.device = cluster.device;
  if (options.plan.memory == 0) options.plan.memory = cluster.memory;
  if (options.grid.ranks_per_node == 0 && cluster.ranks_per_node > 0)
    options.grid.ranks_per_node = std::min(ranks, cluster.ranks_per_node);
  return options;
}

Prediction predict(const StepSchedule& schedule, const MemoryPlan& plan, const Options& options,
                   const Cluster& cluster) {
  const auto kernels = kernels_of(schedule, plan, options);
  const Pricing pricing(schedule, options, cluster);
  IndexedVector<OperationId, Price> prices(schedule.operations.size());
  for (const OperationId id : schedule.operations.ids()) prices[id] = pricing.of(schedule.operation(id), kernels[id]);
  Prediction result;
  result.timeline = play_in_time(
      schedule, [&](OperationId id) { return OperationTime(prices[id].seconds, prices[id].asleep); },
      rules_of(options, cluster));
  const Timeline& timeline = result.timeline;
  // What compute does is as uncertain as its prices, and a wait as what is waited for.
  std::array<double, kTimeCategories> errors{}, seconds{}, waits = timeline.time;
  double error = 0;
  for (const TimelineSpan& span : timeline.spans) {
    const Price& price = prices[span.operation];
    const auto category = static_cast<std::size_t>(category_of(schedule.operation(span.operation)));
    errors[category] += price.error, seconds[category] += price.seconds;
    if (span.stream == 0) error += price.error, waits[category] -= span.end - span.begin;
  }
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    result.class_uncertainty[i] = seconds[i] > 0 ? errors[i] / seconds[i] : 0;
    error += std::max(waits[i], 0.0) * result.class_uncertainty[i];
  }
  result.step_seconds = timeline.seconds;
  result.uncertainty = error / timeline.seconds;
  const double tokens =
      static_cast<double>(schedule.grid.world() * schedule.policy.accumulation * schedule.model.tokens());
  result.tokens_per_second = tokens / timeline.seconds;
  const auto peak = cluster.peak.find(name_of(schedule.policy.compute));
  const double flops = static_cast<double>(schedule.model.training_flops() * schedule.policy.accumulation);
  result.mfu =
      peak == cluster.peak.end() ? std::numeric_limits<double>::quiet_NaN() : flops / timeline.seconds / peak->second;
  result.limit = limit_of(prices, timeline, waits);
  return result;
}

std::string remark_on_host(const Cluster& cluster, const StepSchedule& schedule, const std::string& processor) {
  const bool uses_host = copies_in_steps(schedule) && traits_of(schedule.model.device).has_own_memory;
  if (!uses_host || cluster.host == processor) return "";
  return fmt::format(
      "copies and updates on the host have the prices of {}, and this one has {}: on another host such steps took up "
      "to 15% longer than predicted. tessera bench calibrate measures this one.",
      cluster.host.empty() ? "a host that the file does not name" : "a host with " + cluster.host, processor);
}

double exposed_seconds(const Prediction& prediction) {
  double seconds = 0;
  for (const TimeCategory category : kExposed) seconds += prediction.timeline.time[static_cast<std::size_t>(category)];
  return seconds;
}

nlohmann::ordered_json prediction_json(const Prediction& p) {
  using Json = nlohmann::ordered_json;
  Json classes = Json::object();
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    classes[name_of(static_cast<TimeCategory>(i))] = {{"seconds", p.timeline.time[i]},
                                                      {"operations", p.timeline.operations[i]},
                                                      {"uncertainty", p.class_uncertainty[i]}};
  }
  return {{"step_seconds", p.step_seconds},
          {"uncertainty", p.uncertainty},
          {"tokens_per_second", p.tokens_per_second},
          {"mfu", std::isnan(p.mfu) ? Json() : Json(p.mfu)},
          {"limit", p.limit},
          {"host_seconds", p.timeline.host},
          {"classes", std::move(classes)}};
}

}  // namespace tessera
