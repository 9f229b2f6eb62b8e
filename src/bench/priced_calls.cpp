#include "bench/priced_calls.hpp"

#include <algorithm>
#include <span>

#include "bench/stream_clock.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/quantile.hpp"

namespace tessera {

namespace {

/// Returns 1 MiB of 16-bit words, each a sign, five bits that all exponents share, and ten that are random.
std::vector<std::uint16_t> random_words(bool may_be_negative) {
  std::vector<std::uint16_t> words;
  for (std::uint64_t block = 0; words.size() < std::size_t{1} << 19; ++block) {
    for (const std::uint32_t bits : philox(0, RandomUse::synthetic_data, 1, block)) {
      for (const std::uint32_t half : {bits >> 16, bits & 0xffff})
        words.push_back(static_cast<std::uint16_t>(0x3c00 + (half & 0x3ff) + (may_be_negative ? half & 0x8000 : 0)));
    }
  }
  return words;
}

}  // namespace

RotatingMemory::RotatingMemory(Device& device, MemoryKind kind, std::int64_t bytes, bool may_be_negative)
    : memory_(device.allocate(kind, bytes)) {
  const std::vector<std::uint16_t> words = random_words(may_be_negative);
  const std::span<const std::byte> pattern = std::as_bytes(std::span(words));
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
      for (std::size_t i = 0; i < price.calls.size(); ++i) {
        const StreamWork& call = price.calls[i];
        if (!is_caller) continue;  // and sleep until the round ends
        if (!price.before.empty() && price.before[i]) price.before[i](stream);
        // Ranks share the memory's bandwidth, as in a step.
        if (!device.can_capture() && callers == Callers::all) context.control().barrier();
        if (together == 0) {
          clock.time([&] { call(stream); });
          continue;
        }
        clock.begin();
        for (int time = 0; time < together; ++time) call(stream);
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
  for (const std::vector<double>& seconds : calls.seconds) {
    medians.push_back(std::max(1e-9, context.control().sum(is_caller ? median(seconds) : 0) / callers));
    if (!is_caller) continue;
    spread += (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / (2 * medians.back());
  }
  PriceTable table(calls.axes, medians);
  table.uncertainty =
      std::max(0.02, context.control().maximum(spread) / static_cast<double>(std::max<std::size_t>(1, medians.size())));
  return table;
}

}  // namespace tessera
