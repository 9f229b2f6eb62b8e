#include "schedule/accumulation.hpp"

#include <bit>

namespace tessera {

namespace {

int floor_log2(std::int64_t n) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))) - 1; }

}  // namespace

MicroStepKind micro_step_kind(std::int64_t k, std::int64_t K, bool deterministic) {
  MicroStepKind kind;
  kind.first = k == 0;
  kind.last = k == K - 1;
  if (!deterministic) {
    if (!kind.first) kind.merged_slots.push_back(0);
    return kind;
  }
  std::vector<int> finished;  // slots that hold the sums of finished blocks, the largest block's first
  int block = floor_log2(K);
  for (std::int64_t rest = K; k >= std::int64_t{1} << block; block = floor_log2(rest)) {
    finished.push_back(block - 1);
    k -= std::int64_t{1} << block;
    rest -= std::int64_t{1} << block;
  }
  int slot = 0;  // trailing ones of k: the runs that end here
  while ((k >> slot) & 1) kind.merged_slots.push_back(slot++);
  const bool ends_block = slot == block;
  kind.result_slot = ends_block && !kind.last ? slot - 1 : slot;
  if (kind.last) kind.merged_slots.insert(kind.merged_slots.end(), finished.rbegin(), finished.rend());
  return kind;
}

}  // namespace tessera
