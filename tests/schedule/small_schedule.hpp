#pragma once
// A schedule of three segments and six storages, made by hand, so that one can say what lives where without running
// anything.

#include "tessera/schedule/schedule.hpp"

namespace tessera::testing {

/// Segment 0 reads `copy`, makes `scratch`, and from it `sum`. Segment 1 adds to `sum`. Segment 2 reads it and makes
/// the `copy` of the next step. Storage 5 lies on the host.
struct SmallSchedule {
  SmallSchedule() {
    const std::int64_t bytes[] = {1, 10, 100, 1000, 10'000, 100'000};
    for (const std::int64_t size : bytes) schedule.storages.add({"", size});
    schedule.storages[rest].always_live = true;
    schedule.storages[host].space = MemorySpace::host;
    segment({{{copied}, {scratch_value}, {}}, {{scratch_value, weights, on_host}, {first_sum}, {}}}, {copied, on_host});
    segment({{{}, {}, {{first_sum, next_sum}}}}, {first_sum});
    segment({{{next_sum}, {next_copy}, {}}}, {next_sum});
    for (const int i : {0, 1, 1, 2}) schedule.step.push_back({SegmentId(i), 0});
  }

  ValueId value(StorageId storage) {
    Value value;
    value.storage = storage;
    return schedule.values.add(value);
  }
  struct Touches {
    std::vector<ValueId> reads, writes;
    std::vector<Update> updates;
  };
  void segment(const std::vector<Touches>& operations, std::vector<ValueId> carried_in) {
    Segment segment;
    segment.first = schedule.operations.end_id();
    segment.count = static_cast<std::int64_t>(operations.size());
    segment.carried_in = std::move(carried_in);
    for (const Touches& touches : operations) {
      Operation operation;
      operation.reads = touches.reads, operation.writes = touches.writes, operation.updates = touches.updates;
      schedule.operations.push_back(operation);
    }
    schedule.segments.push_back(segment);
  }

  static constexpr StorageId rest{0}, sum{1}, scratch{2}, copy{3}, unused{4}, host{5};
  StepSchedule schedule;
  ValueId weights = value(rest), copied = value(copy), scratch_value = value(scratch), first_sum = value(sum),
          next_sum = value(sum), next_copy = value(copy), on_host = value(host);
};

}  // namespace tessera::testing
