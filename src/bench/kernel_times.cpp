#include "bench/kernel_times.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/quantile.hpp"

namespace tessera {

void KernelTimes::run(StreamClock& clock, Kernels& kernels, Stream& stream, const KernelArguments& call) {
  const auto known = describe(call);
  if (!known) return kernels.run(stream, call);
  clock.time([&] { kernels.run(stream, call); });
  add(*known);
}

void KernelTimes::add(const KernelCall& call) {
  auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.sum.name == call.name && entry.sum.shape == call.shape;
  });
  if (it == entries_.end()) it = entries_.insert(it, Entry{{call.name, call.shape, call.group, call.makes_fp8()}, {}});
  it->sum.calls += count_;
  it->sum.cost.flops += count_ * call.cost.flops;
  it->sum.cost.bytes += count_ * call.cost.bytes;
  pending_.push_back({static_cast<std::size_t>(it - entries_.begin()), count_});
}

void KernelTimes::finish_repetition(const std::vector<double>& seconds) {
  TESSERA_ASSERT(seconds.size() == pending_.size(), "{} times for {} calls", seconds.size(), pending_.size());
  ++repetitions_;
  for (Entry& entry : entries_) entry.seconds.resize(repetitions_);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    entries_[pending_[i].entry].seconds.back() += pending_[i].count * seconds[i];
  }
  pending_.clear();
}

std::vector<KernelRow> KernelTimes::rows() const {
  TESSERA_ASSERT(repetitions_ > 0, "no repetition was measured");
  const auto repetitions = static_cast<double>(repetitions_);
  std::vector<KernelRow> rows;
  for (const Entry& entry : entries_) {
    KernelRow& row = rows.emplace_back(entry.sum);
    row.calls /= repetitions, row.cost.flops /= repetitions, row.cost.bytes /= repetitions;
    row.seconds = median(entry.seconds);
  }
  return rows;
}

}  // namespace tessera
