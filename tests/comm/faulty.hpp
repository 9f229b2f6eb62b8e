#pragma once
// A communicator that fails on purpose.

#include <cstdint>
#include <memory>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/notice.hpp"

namespace tessera {

/// Injected faults, by seed: each call draws from (seed, rank, number of the call). Probabilities are in [0, 1].
struct FaultPlan {
  std::uint64_t seed = 0;
  double delay = 0;  ///< the call starts late, by up to max_delay_microseconds
  double drop = 0;   ///< the call never arrives: it waits until another rank gives up
  double flip = 0;   ///< one bit of the result is wrong
  double kill = 0;   ///< the call throws
  std::int64_t max_delay_microseconds = 500;
  std::int64_t only_call = -1;  ///< >= 0: drop, flip and kill happen at this call only
};

/// `notice` ends the wait of a dropped call.
std::unique_ptr<Communicator> make_faulty(std::unique_ptr<Communicator> inner, const FaultPlan& plan,
                                          FailureNotice& notice);

}  // namespace tessera
