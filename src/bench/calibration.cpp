#include "bench/calibration.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "bench/stream_clock.hpp"
#include "bench/transports.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/quantile.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

namespace {

/// A communicator with its buffer, and memory for results.
struct GroupBuffer {
  GroupBuffer(MeasuredRank& bench, Group group, std::int64_t bytes)
      : transports(make_transports(bench.context, bench.options, bench.machine, bytes, group)),
        contender(transports->contenders().front()),
        result(contender.device->allocate(MemoryKind::device, bytes)) {}

  std::unique_ptr<Transports> transports;
  Contender contender;
  std::unique_ptr<DeviceMemory> result;
};

/// Returns both tables as one, with an axis of ranks.
PriceTable joined(const PriceTable& alone, const PriceTable& together, std::int64_t ranks) {
  std::vector<PriceTable::Axis> axes{{PriceAxis::ranks, {1, static_cast<double>(ranks)}}};
  std::ranges::copy(alone.axes(), std::back_inserter(axes));
  std::vector<double> seconds(alone.points().begin(), alone.points().end());
  std::ranges::copy(together.points(), std::back_inserter(seconds));
  PriceTable table(std::move(axes), std::move(seconds));
  table.uncertainty = std::max(alone.uncertainty, together.uncertainty);
  return table;
}

}  // namespace

void add_shared_prices(MeasuredRank& bench, Device& device, Stream& stream, std::vector<PricedCalls>& calls,
                       double seconds, Cluster& cluster) {
  const std::int64_t ranks = bench.context.ranks_per_node();
  Cluster alone;
  if (ranks > 1) {
    time_calls(bench.context, device, stream, calls, seconds / 2, 0, Callers::first);
    add_prices(bench, calls, alone);
  }
  time_calls(bench.context, device, stream, calls, ranks > 1 ? seconds / 2 : seconds);
  add_prices(bench, calls, cluster);
  for (const auto& [name, table] : alone.prices)
    cluster.prices.insert_or_assign(name, joined(table, cluster.price(name), ranks));
}

void add_collectives(MeasuredRank& bench, Group group, const LadderSizes& sizes, Cluster& cluster) {
  const ProcessGrid grid(bench.context.size(), bench.context.ranks_per_node(), bench.context.size());
  if (grid.size(group) == 1) return;
  GroupBuffer own(bench, group, sizes.messages.back());
  Communicator& c = *own.contender.communicator;
  std::byte* const buffer = own.contender.buffer;
  std::byte* const result = own.result->data();
  const auto n = static_cast<double>(c.size());
  std::vector<std::vector<ExchangeRun>> runs;
  for (const std::int64_t bytes : sizes.messages) {  // each member sends a piece to every other
    std::vector<ExchangeRun>& all = runs.emplace_back();
    const std::int64_t piece = std::max<std::int64_t>(1, bytes / size_of(DType::fp32) / c.size());
    for (std::int64_t from = 0; from < c.size(); ++from) {
      for (std::int64_t to = 0; to < c.size(); ++to) all.push_back({from, to, to * piece, from * piece, piece});
    }
  }
  std::vector<PricedCalls> calls;
  for (const OperationKind kind :
       {OperationKind::gather, OperationKind::reduce_scatter, OperationKind::all_reduce, OperationKind::exchange})
    calls.push_back({price_name(kind, grid.within_node(group)), {{PriceAxis::ranks, {n}}, {PriceAxis::bytes, {}}}, {}});
  for (std::size_t i = 0; i < sizes.messages.size(); ++i) {
    const std::int64_t piece = runs[i].front().elements, whole = piece * c.size() * size_of(DType::fp32);
    for (PricedCalls& one : calls) one.axes[1].values.push_back((n - 1) / n * static_cast<double>(whole));
    calls[0].calls.push_back([=, &c](Stream& s) { c.all_gather(s, buffer, piece, DType::fp32); });
    calls[1].calls.push_back(
        [=, &c](Stream& s) { c.reduce_scatter(s, buffer, DType::fp32, result, DType::fp32, piece); });
    calls[2].calls.push_back([=, &c](Stream& s) {
      c.all_reduce(s, reinterpret_cast<std::int64_t*>(buffer), whole / size_of(DType::int64), Reduction::sum);
    });
    calls[3].calls.push_back([=, &c, &run = runs[i]](Stream& s) { c.exchange(s, buffer, result, run, DType::fp32); });
  }
  time_calls(bench.context, *own.contender.device, *own.contender.stream, calls, sizes.seconds / 8, 4);
  add_prices(bench, calls, cluster);
}

namespace {

/// Runs `work` `count` times as work of a stream.
struct Repeated {
  StreamWork work;
  void submit(Stream& stream, std::int64_t count) {
    stream.submit({[](void* self, std::int64_t times, Stream& on) {
                     for (std::int64_t i = 0; i < times; ++i) static_cast<Repeated*>(self)->work(on);
                   },
                   this, count});
  }
};

/// Returns how much longer a work of `device` takes while another one runs on a stream of the rank's device.
/// Collective.
double slowdown(MeasuredRank& bench, Device& device, StreamWork of, StreamWork under) {
  const auto front = device.make_stream("front"), back = bench.device->make_stream("back");
  StreamClock clock(device, *front), other_clock(*bench.device, *back);
  Repeated work{std::move(of)}, other{std::move(under)};
  const auto median_of = [&](std::int64_t others) {
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i) {
      bench.context.control().barrier();
      if (others > 0) other.submit(*back, others);
      clock.begin(), work.submit(*front, 1), clock.end();
      seconds.push_back(clock.take()[0]);
      back->synchronize();
    }
    return bench.context.control().maximum(median(seconds));
  };
  const double alone = median_of(0);
  other_clock.begin(), other.submit(*back, 4), other_clock.end();
  const double of_other = bench.context.control().maximum(other_clock.take()[0] / 4);
  constexpr double kLonger = 3;  // the other work still runs when this one ends
  return std::max(1.0, median_of(1 + std::llround(kLonger * alone / std::max(1e-7, of_other))) / alone);
}

}  // namespace

void add_slowdowns(MeasuredRank& bench, const LadderSizes& sizes, Cluster& cluster) {
  KernelLadder ladder(*bench.device, bench.compute->kernels(Queue::compute), sizes);
  std::vector<PricedCalls> kernels = ladder.all(bench.options.precision.compute);
  const auto linear = std::ranges::find(kernels, forward_price(bench.options.precision.compute), &PricedCalls::name);
  const StreamWork matmul = linear->calls.back();
  const std::int64_t bytes = sizes.messages.back();
  const auto host = bench.device->allocate(MemoryKind::pinned, bytes);
  const auto memory = bench.device->allocate(MemoryKind::device, bytes);
  const StreamWork copy = [&](Stream& s) { bench.device->copy(s, host->data(), memory->data(), bytes); };
  cluster.compute_under_copies = slowdown(bench, *bench.device, matmul, copy);
  if (traits_of(cluster.device).has_own_memory) {
    const auto cores = make_cpu_device();
    KernelLadder of_cores(*cores, bench.compute->kernels(Queue::host), host_sizes(sizes));
    std::vector<PricedCalls> updates = of_cores.of_host(DType::fp32);
    const auto adamw = std::ranges::find(updates, "host adamw.fp32", &PricedCalls::name);
    cluster.host_under_copies = slowdown(bench, *cores, adamw->calls.back(), copy);
  }
  if (bench.context.size() == 1) return;
  GroupBuffer own(bench, Group::world, bytes);
  const auto elements = bytes / size_of(DType::fp32) / bench.context.size();
  const StreamWork gather = [&](Stream& s) {
    own.contender.communicator->all_gather(s, own.contender.buffer, elements, DType::fp32);
  };
  cluster.compute_under_collectives = slowdown(bench, *bench.device, matmul, gather);
  cluster.collectives_under_compute = slowdown(bench, *bench.device, gather, matmul);
}

namespace {

/// Measures what the host does between steps: the part of a tiny model's steps that neither operations nor the borders
/// of segments take.
void add_time_between_steps(MeasuredRank& bench, Cluster& cluster) {
  constexpr int kSteps = 20;
  Options tiny = parse_arguments({"--model.family=gpt2", "--model.layers=1", "--model.heads=1", "--model.width=64",
                                  "--model.vocab=64", "--model.context=16", "--train.micro_batch=1"});
  tiny.run = bench.options.run, tiny.comm = bench.options.comm, tiny.train.steps = 2 * kSteps;
  MachineShape machine = bench.machine;
  machine.timed_steps = kSteps;
  const ResolvedRun run(tiny, {Purpose::bench, bench.context, machine});
  const auto session = open_session(bench.context, run);
  std::vector<double> rest;
  for (int i = 0; i < 2 * kSteps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    session->train_step();
    const double seconds = seconds_since(start);
    const StepTimeTotals times = session->player().times().take();
    const auto known = std::accumulate(times.nanoseconds.begin(), times.nanoseconds.end(), std::int64_t{0});
    if (times.measured && i > 0) rest.push_back(seconds - 1e-9 * static_cast<double>(known));
  }
  const auto borders = static_cast<double>(session->schedule().step.size()) * cluster.segment;
  cluster.step = std::max(1e-6, median(rest) - borders);
}

}  // namespace

void add_host_times(MeasuredRank& bench, Cluster& cluster) {
  const auto other = bench.settings.queue_mode == QueueMode::serial ? bench.device->make_caller_stream("other")
                                                                    : bench.device->make_stream("other");
  const auto done = bench.device->make_event();
  const auto memory = bench.device->allocate(MemoryKind::device, 256);
  Repeated little{[&](Stream& s) { bench.compute->kernels(Queue::compute).run(s, FillZero{memory->data(), 256}); }};
  std::vector<double> issue, segment;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    little.submit(*other, 1);
    other->record(*done);
    issue.push_back(seconds_since(start));
    done->synchronize();
    other->synchronize(), bench.stream->synchronize();
    segment.push_back(seconds_since(start));
  }
  cluster.issue = median(issue), cluster.segment = median(segment);
  add_time_between_steps(bench, cluster);
}

}  // namespace tessera
