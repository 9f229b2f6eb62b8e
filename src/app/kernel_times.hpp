#pragma once
// Time of kernel calls by kernel and shape.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// What a kernel mostly does. The head is one kernel: norm, vocabulary products and cross-entropy.
enum class KernelGroup : std::uint8_t { linear, attention, head, other };

/// All calls of one kernel on one shape, per optimizer step.
struct KernelRow {
  std::string name, shape;
  KernelGroup group = KernelGroup::other;
  double calls = 0;
  double flops = 0;    ///< of matrix products; attention's visible half. 0 in group `other`
  double bytes = 0;    ///< group `other`: least memory traffic
  double seconds = 0;  ///< median over repetitions
};

/// What one call did.
struct KernelCall {
  std::string name, shape;
  KernelGroup group = KernelGroup::other;
  double flops = 0, bytes = 0;
};

/// Adds calls up, repetition by repetition.
class KernelTimes {
 public:
  /// A new repetition of the step begins.
  void start_repetition() { ++repetitions_; }
  /// Calls from here on stand for `count` calls of a step.
  void set_count(std::int64_t count) { count_ = static_cast<double>(count); }
  void add(const KernelCall& call, double seconds);
  /// Forgets everything (after warming up).
  void clear() { *this = {}; }
  /// In order of first appearance; at least one repetition.
  std::vector<KernelRow> rows() const;

 private:
  struct Entry {
    KernelRow sum;                ///< over all repetitions
    std::vector<double> seconds;  ///< per repetition
  };
  std::vector<Entry> entries_;
  std::size_t repetitions_ = 0;
  double count_ = 1;
};

/// Kernels that do what `inner` does and report each call to `times`; both must outlive them.
std::unique_ptr<Kernels> make_timed_kernels(Kernels& inner, KernelTimes& times);

}  // namespace tessera
