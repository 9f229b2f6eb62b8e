#pragma once
// How a rank that fails tells the others: every wait of ours looks at the notice, so nobody is left in a collective.

#include <string>

#include "tessera/base/error.hpp"

namespace tessera {

/// What the first rank that failed has to say.
struct Failure {
  std::int64_t rank = 0;
  ExitCode code = ExitCode::internal;
  std::string message;
};

class FailureNotice {
 public:
  virtual ~FailureNotice() = default;
  /// Tells all ranks; the first call in the world wins. True when this call was the first as far as this node knows.
  virtual bool raise(const Failure& failure) = 0;
  /// Whether a failure is known here. Cheap enough for a spin loop; any thread.
  virtual bool raised() = 0;
  /// The failure; only after raised().
  virtual Failure failure() = 0;

  /// Throws PeerError when a rank has failed.
  void check() {
    if (!raised()) return;
    const Failure known = failure();
    throw PeerError(known.code, fmt::format("rank {} failed: {}", known.rank, known.message));
  }
};

}  // namespace tessera
