#pragma once
// A communicator that is slower on purpose (comm.emulate).

#include <memory>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Makes every collective last at least latency + bytes / bandwidth, bytes as in CommunicationCount. The calling queue
/// sleeps for the rest of the time, without using its core. `bytes_per_second` > 0, `latency_seconds` >= 0, else
/// UsageError.
std::unique_ptr<Communicator> make_emulated(std::unique_ptr<Communicator> inner, double latency_seconds,
                                            double bytes_per_second);

}  // namespace tessera
