#pragma once
// How a failing rank tells the others. Every wait looks at the notice, so no rank is left in a collective.

#include <functional>
#include <string>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

/// The report of the first rank that failed.
struct Failure {
  std::int64_t rank = 0;
  ExitCode code = ExitCode::internal;
  std::string message;
};

class FailureNotice {
 public:
  virtual ~FailureNotice() = default;
  /// Tells all ranks; the first call in the world wins. True when this call was the first as far as this node knows.
  /// Afterwards raised() is true, unless another rank was killed or stopped while it told of its failure.
  virtual bool raise(const Failure& failure) = 0;
  /// Returns whether a failure is known here. Cheap enough for a spin loop; any thread. CommunicationError if MPI
  /// fails.
  virtual bool raised() = 0;
  /// The same where nothing may be thrown, as in destructors: also true if it cannot be found out.
  bool is_over() noexcept {
    try {
      return raised();
    } catch (...) {
      return true;
    }
  }
  /// Returns the failure; only after raised().
  virtual Failure failure() = 0;

  /// Sets what this process does before it ends without unwinding, given the reason. Not while threads may end it.
  void set_last_words(std::function<void(const CommunicationError& why)> say) { say_ = std::move(say); }
  void say_last_words(const CommunicationError& why) const {
    if (say_) say_(why);
  }

  /// Throws PeerError when a rank has failed.
  void check() {
    if (!raised()) return;
    const Failure known = failure();
    throw PeerError(known.code, fmt::format("rank {} failed: {}", known.rank, known.message));
  }

 private:
  std::function<void(const CommunicationError& why)> say_;
};

}  // namespace tessera
