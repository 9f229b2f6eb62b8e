#pragma once
// Some steps of a run that follow each other.

#include <cstdint>

namespace tessera {

/// Steps `first` to `last`, from 1; none where `last` is 0.
struct StepRange {
  std::int64_t first = 0, last = 0;
  bool on() const { return last > 0; }
  bool operator==(const StepRange&) const = default;
};

}  // namespace tessera
