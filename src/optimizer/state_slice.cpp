#include "tessera/optimizer/state_slice.hpp"

#include <algorithm>

namespace tessera {

namespace {

bool keeps(OptimizerName name, StateKind kind) {
  const std::span<const StateKind> all = rules_of(name).keeps;
  return std::ranges::find(all, kind) != all.end();
}

}  // namespace

std::vector<StateSpan> state_spans(OptimizerName name, const Unit& unit, std::int64_t first, std::int64_t count) {
  const std::int64_t matrices = std::clamp<std::int64_t>(unit.matrices_end - first, 0, count);
  const OptimizerName others = rules_of(name).others;
  std::vector<StateSpan> spans;
  for (std::size_t i = 0; i < kStateKinds; ++i) {
    const auto kind = static_cast<StateKind>(i);
    const std::int64_t begin = keeps(name, kind) ? 0 : matrices, end = keeps(others, kind) ? count : matrices;
    if (keeps(name, kind) || keeps(others, kind))
      spans.push_back({kind, begin, std::max<std::int64_t>(end - begin, 0)});
  }
  return spans;
}

std::int64_t state_elements(OptimizerName name, const Unit& unit, std::int64_t members) {
  const std::int64_t share = unit.share(members);
  std::int64_t most = 0;
  for (std::int64_t member = 0; member < members; ++member) {
    std::int64_t elements = -share;  // the masters
    for (const StateSpan& span : state_spans(name, unit, member * share, share)) elements += span.count;
    most = std::max(most, elements);
  }
  return most;
}

std::int64_t snapshot_elements(OptimizerName name, DType moments, const Unit& unit, std::int64_t members) {
  return unit.share(members) * size_of(DType::fp32) / size_of(moments) + state_elements(name, unit, members);
}

void add_vectors(StateSlice& slice, std::span<const StateSpan> spans, std::byte* data, DType moments) {
  for (const StateSpan& span : spans) {
    const DType dtype = dtype_of(span.kind, moments);
    slice.vectors.push_back({span, data, dtype});
    data += span.count * size_of(dtype);
  }
}

}  // namespace tessera
