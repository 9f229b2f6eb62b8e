#include "bench/priced_calls.hpp"

#include <algorithm>
#include <span>

#include "bench/median.hpp"
#include "bench/stream_clock.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/math.hpp"

namespace tessera {

RotatingMemory::RotatingMemory(Device& device, MemoryKind kind, std::int64_t bytes)
    : memory_(device.allocate(kind, bytes)) {
  const std::vector<std::byte> pattern(1 << 16, std::byte{0x3c});
  for (std::int64_t done = 0; done < bytes;) {  // doubles the filled part
    const std::int64_t more = std::min(done == 0 ? std::ssize(pattern) : done, bytes - done);
    device.copy(memory_->data() + done, done == 0 ? pattern.data() : memory_->data(), more);
    done += more;
  }
}

std::byte* RotatingMemory::next(std::int64_t bytes) {
  TESSERA_ASSERT(bytes <= memory_->size(), "a call wants {} bytes of {}", bytes, memory_->size());
  if (at_ + bytes > memory_->size()) at_ = 0;
  std::byte* const begin = memory_->data() + at_;
  at_ = round_up(at_ + bytes, 256);
  return begin;
}

void time_calls(RankContext& context, Device& device, Stream& stream, std::vector<PricedCalls>& prices, double seconds,
                int together, Callers callers) {
  constexpr int kLeast = 3;
  const bool is_caller = callers == Callers::all || context.rank() == 0;
  const int warmup = device.can_capture() ? 2 : 1;  // until libraries and the clock know the calls
  StreamClock clock(device, stream);
  for (PricedCalls& price : prices) price.seconds.assign(price.calls.size(), {});
  const auto start = std::chrono::steady_clock::now();
  double spent = 0, last = 0;
  for (int round = -warmup; round < kLeast || spent + last < seconds; ++round) {
    for (PricedCalls& price : prices) {
      for (const StreamWork& call : price.calls) {
        if (!is_caller) continue;  // and sleep until the round ends
        // Ranks share the memory's bandwidth, as in a step.
        if (!device.can_capture() && callers == Callers::all) context.control().barrier();
        if (together == 0) {
          clock.time([&] { call(stream); });
          continue;
        }
        clock.begin();
        for (int i = 0; i < together; ++i) call(stream);
        clock.end();
      }
    }
    const std::vector<double> times = clock.take();
    auto time = times.begin();
    for (PricedCalls& price : std::span(prices).first(is_caller ? prices.size() : 0)) {
      for (std::vector<double>& of_call : price.seconds) {
        if (round >= 0) of_call.push_back(*time / std::max(1, together));
        ++time;
      }
    }
    const double now = context.control().maximum(seconds_since(start));
    last = now - spent, spent = now;
  }
}

PriceTable price_of(RankContext& context, const PricedCalls& calls) {
  std::vector<double> medians;
  double spread = 0;
  const bool is_caller = !calls.seconds.front().empty();
  const double callers = context.control().sum(is_caller ? 1.0 : 0.0);
  for (std::vector<double> seconds : calls.seconds) {
    medians.push_back(std::max(1e-9, context.control().sum(is_caller ? median(seconds) : 0) / callers));
    if (!is_caller) continue;
    std::ranges::sort(seconds);
    const auto quartile = [&](std::size_t i) { return seconds[i * (seconds.size() - 1) / 4]; };
    spread += (quartile(3) - quartile(1)) / (2 * medians.back());
  }
  PriceTable table(calls.axes, medians);
  table.uncertainty =
      std::max(0.02, context.control().maximum(spread) / static_cast<double>(std::max<std::size_t>(1, medians.size())));
  return table;
}

}  // namespace tessera
