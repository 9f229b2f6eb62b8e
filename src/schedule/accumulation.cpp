#include "schedule/accumulation.hpp"

namespace tessera {

MicroStepKind micro_step_kind(std::int64_t k, std::int64_t K, bool deterministic) {
  MicroStepKind kind;
  kind.first = k == 0;
  kind.last = k == K - 1;
  if (!deterministic) {
    if (!kind.first) kind.merged_levels.push_back(0);
    return kind;
  }
  if (kind.last) {  // fold every level that is occupied: the set bits of k
    for (int level = 0; (k >> level) != 0; ++level) {
      if ((k >> level) & 1) kind.merged_levels.push_back(level);
    }
    return kind;
  }
  while ((k >> kind.result_level) & 1) kind.merged_levels.push_back(kind.result_level++);
  return kind;
}

}  // namespace tessera
