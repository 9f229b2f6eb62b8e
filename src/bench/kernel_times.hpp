#pragma once
// The work and time of kernel calls, by kernel and shape.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernel_cost.hpp"
#include "bench/stream_clock.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// The main work of a kernel. The head is one kernel: norm, vocabulary matmuls and cross-entropy.
enum class KernelGroup : std::uint8_t { linear, attention, head, other };

/// All calls of one kernel on one shape, per optimizer step.
struct KernelRow {
  std::string name, shape;
  KernelGroup group = KernelGroup::other;
  double calls = 0;
  KernelCost cost;
  double seconds = 0;  ///< median over repetitions
};

/// The work of one call.
struct KernelCall {
  std::string name, shape;
  KernelGroup group = KernelGroup::other;
  KernelCost cost;
};

/// Adds calls up, repetition by repetition.
class KernelTimes {
 public:
  /// Later calls stand for `count` calls of a step.
  void set_count(std::int64_t count) { count_ = static_cast<double>(count); }
  void add(const KernelCall& call);
  /// Ends a repetition of the step; `seconds` are those of its calls, in order.
  void finish_repetition(const std::vector<double>& seconds);
  /// Forgets everything (after warming up).
  void clear() { *this = {}; }
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
  std::vector<Entry> entries_;
  std::vector<Pending> pending_;  ///< calls of this repetition
  std::size_t repetitions_ = 0;
  double count_ = 1;
};

/// Decorator that times every call of `inner` with `clock` and reports it to `times`; all must outlive it.
std::unique_ptr<Kernels> make_timed_kernels(Kernels& inner, KernelTimes& times, StreamClock& clock);

}  // namespace tessera
