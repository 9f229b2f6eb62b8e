#include "bench/collective_times.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/quantile.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

/// One contender in one case: calls it, and knows the expected result.
class Trial {
 public:
  Trial(const Contender& contender, const CollectiveCase& size)
      : contender_(contender),
        size_(size),
        rank_(contender.communicator->rank()),
        ranks_(contender.communicator->size()),
        host_(static_cast<std::size_t>(size.bytes)),
        shard_(contender.device->allocate(MemoryKind::device, size.collective == Collective::reduce_scatter
                                                                  ? size.elements * size_of(DType::fp32)
                                                                  : 0)) {}

  void call() {
    Communicator& c = *contender_.communicator;
    Stream& stream = *contender_.stream;
    std::byte* const buffer = contender_.buffer;
    switch (size_.collective) {
      case Collective::all_gather:
        return c.all_gather(stream, buffer, size_.elements, DType::fp32);
      case Collective::reduce_scatter:
        return c.reduce_scatter(stream, buffer, DType::fp32, shard_->data(), DType::fp32, size_.elements);
      case Collective::all_reduce:
        return c.all_reduce(stream, reinterpret_cast<std::int64_t*>(buffer), size_.elements, Reduction::sum);
      default:
        throw InternalError("nobody asked for this collective");
    }
  }

  void barrier() {
    contender_.communicator->barrier(*contender_.stream);
    wait();
  }
  /// Waits until all calls are done.
  void wait() {
    contender_.stream->synchronize();
    if (contender_.check) contender_.check();
  }

  /// Runs one call on known numbers: small integers, so that sums are exact in every order.
  void check() {
    fill();
    send();
    call();
    wait();
    if (!is_right()) {
      throw InternalError("{} of {} bytes by '{}' gave a wrong result", name_of(size_.collective), size_.bytes,
                          contender_.name);
    }
    // Sums in place grow from call to call, whereas zeros stay.
    if (size_.collective == Collective::all_reduce) std::fill(host_.begin(), host_.end(), std::byte{});
    send();
  }

 private:
  float* floats() { return reinterpret_cast<float*>(host_.data()); }
  std::int64_t* integers() { return reinterpret_cast<std::int64_t*>(host_.data()); }
  static std::int64_t number(std::int64_t place, std::int64_t rank) { return place % 13 + rank; }
  std::int64_t sum(std::int64_t place) const { return ranks_ * (place % 13) + ranks_ * (ranks_ - 1) / 2; }
  void send() { contender_.device->copy(contender_.buffer, host_.data(), size_.bytes); }
  void receive(const std::byte* from, std::int64_t bytes) { contender_.device->copy(host_.data(), from, bytes); }

  void fill() {
    const std::int64_t all = size_.elements * ranks_, begin = rank_ * size_.elements, end = begin + size_.elements;
    switch (size_.collective) {
      case Collective::all_gather:
        for (std::int64_t i = 0; i < all; ++i) {
          floats()[i] = i >= begin && i < end ? static_cast<float>(number(i, rank_)) : -1.0f;
        }
        return;
      case Collective::reduce_scatter:
        for (std::int64_t i = 0; i < all; ++i) floats()[i] = static_cast<float>(number(i, rank_));
        return;
      default:
        for (std::int64_t i = 0; i < size_.elements; ++i) integers()[i] = number(i, rank_);
    }
  }

  bool is_right() {
    bool right = true;
    switch (size_.collective) {
      case Collective::all_gather:
        receive(contender_.buffer, size_.bytes);
        for (std::int64_t i = 0; i < size_.elements * ranks_; ++i) {
          right = right && floats()[i] == static_cast<float>(number(i, i / size_.elements));
        }
        return right;
      case Collective::reduce_scatter:
        receive(shard_->data(), shard_->size());
        for (std::int64_t i = 0; i < size_.elements; ++i) {
          right = right && floats()[i] == static_cast<float>(sum(rank_ * size_.elements + i));
        }
        return right;
      default:
        receive(contender_.buffer, size_.bytes);
        for (std::int64_t i = 0; i < size_.elements; ++i) right = right && integers()[i] == sum(i);
        return right;
    }
  }

  const Contender& contender_;
  const CollectiveCase& size_;
  std::int64_t rank_, ranks_;
  std::vector<std::byte> host_;  ///< data for the buffer, or read from it
  std::unique_ptr<DeviceMemory> shard_;
};

/// Returns the calls per repetition, because a single short call would be lost in the clock and in the ranks' skew
/// after a barrier.
std::int64_t calls_per_repetition(std::int64_t bytes) {
  return std::clamp<std::int64_t>((std::int64_t{1} << 20) / bytes, 1, 128);
}

double time_repetition(Trial& trial, std::int64_t calls) {
  trial.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < calls; ++i) trial.call();
  trial.wait();
  return seconds_since(start) / static_cast<double>(calls);
}

}  // namespace

std::vector<std::int64_t> message_sizes(std::int64_t max_bytes) {
  constexpr std::int64_t kSmallest = 1024;
  if (max_bytes < kSmallest) {
    throw refuse("bench.max_bytes", max_bytes)
        .because("there is nothing to measure below the smallest message")
        .use("at least {}", kSmallest);
  }
  std::vector<std::int64_t> sizes{kSmallest};
  while (sizes.back() <= max_bytes / 4) sizes.push_back(4 * sizes.back());
  return sizes;
}

std::vector<CollectiveCase> collective_cases(std::int64_t ranks, const std::vector<std::int64_t>& sizes) {
  std::vector<CollectiveCase> cases;
  for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce}) {
    const bool whole = collective == Collective::all_reduce;
    const std::int64_t element = whole ? size_of(DType::int64) : size_of(DType::fp32) * ranks;
    for (const std::int64_t bytes : sizes) {
      const std::int64_t elements = std::max<std::int64_t>(1, bytes / element);
      cases.push_back({collective, elements, elements * element});
    }
  }
  return cases;
}

std::int64_t buffer_bytes(const std::vector<CollectiveCase>& cases) {
  std::int64_t largest = 0;
  for (const CollectiveCase& one : cases) largest = std::max(largest, one.bytes);
  return largest;
}

double bus_factor(Collective collective, std::int64_t ranks) {
  const double part = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return part;
    case Collective::all_reduce:
      return 2 * part;
    case Collective::broadcast:
    case Collective::exchange:
      return 1;
    case Collective::barrier:
      break;
  }
  throw InternalError("no such collective");
}

Bandwidths bandwidths(const CollectiveCase& size, std::int64_t ranks, double seconds) {
  const double algorithm = static_cast<double>(size.bytes) / seconds;
  return {algorithm, algorithm * bus_factor(size.collective, ranks)};
}

std::vector<double> time_collective(RankContext& context, const std::vector<Contender>& contenders,
                                    const CollectiveCase& size, const Repetitions& repetitions) {
  std::vector<Trial> trials;
  trials.reserve(contenders.size());
  for (const Contender& contender : contenders) {
    // Contenders may share a buffer: check() leaves it ready for the next one's fill(), and zeroed for the timing.
    trials.emplace_back(contender, size).check();
    context.control().barrier();
  }
  const std::int64_t calls = calls_per_repetition(size.bytes);
  std::vector<std::vector<double>> seconds(trials.size());
  for (std::int64_t i = -repetitions.warmup; i < repetitions.measured; ++i) {
    for (std::size_t t = 0; t < trials.size(); ++t) {
      const double time = time_repetition(trials[t], calls);
      if (i >= 0) seconds[t].push_back(time);
    }
  }
  std::vector<double> medians;
  for (auto& times : seconds) {
    for (double& time : times) time = context.control().maximum(time);
    medians.push_back(median(times));
  }
  return medians;
}

}  // namespace tessera
