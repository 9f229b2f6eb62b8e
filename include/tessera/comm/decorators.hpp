#pragma once
// Decorators of a communicator: slower on purpose (comm.emulate), or failing on purpose (tests).

#include <cstdint>
#include <memory>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/notice.hpp"

namespace tessera {

/// Makes every collective last at least latency + bytes / bandwidth, bytes as in CommunicationCount. The calling queue
/// sleeps for the rest of the time, without using its core. `bytes_per_second` > 0, `latency_seconds` >= 0, else
/// UsageError.
std::unique_ptr<Communicator> make_emulated(std::unique_ptr<Communicator> inner, double latency_seconds,
                                            double bytes_per_second);

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
