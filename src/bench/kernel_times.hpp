#pragma once
// The work and time of kernel calls, by kernel and shape.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/stream_clock.hpp"
#include "tessera/kernels/kernel_call.hpp"

namespace tessera {

/// All calls of one kernel on one shape, per optimizer step.
struct KernelRow {
  std::string name, shape;
  KernelGroup group = KernelGroup::other;
  bool makes_fp8 = false;  ///< as KernelCall's
  double calls = 0;
  KernelCost cost = {};
  double seconds = 0;  ///< median over repetitions
};

/// Adds calls up, repetition by repetition.
class KernelTimes {
 public:
  /// Runs a call as a stretch of the clock, and adds it; one that only handles a few numbers is run alone.
  void run(StreamClock& clock, Kernels& kernels, Stream& stream, const KernelArguments& call);
  /// Later calls stand for `count` calls of a step.
  void set_count(std::int64_t count) { count_ = static_cast<double>(count); }
  /// Ends a repetition of the step; `seconds` are those of its calls, in order.
  void finish_repetition(const std::vector<double>& seconds);
  /// Forgets everything (after warming up).
  void clear() { *this = KernelTimes(); }
  /// Returns the rows in order of first appearance; at least one repetition.
  std::vector<KernelRow> rows() const;

 private:
  struct Entry {
    KernelRow sum;                ///< over all repetitions
    std::vector<double> seconds;  ///< per repetition
  };
  struct Pending {
    std::size_t entry = 0;
    double count = 1;
  };
  void add(const KernelCall& call);

  std::vector<Entry> entries_;
  std::vector<Pending> pending_;  ///< calls of this repetition
  std::size_t repetitions_ = 0;
  double count_ = 1;
};

}  // namespace tessera
