#pragma once
// The emulated NCCL's services for tests. Its ranks are threads of one process, each with its own device; work
// runs on the emulated streams. Ranks that call different things are refused: the communicator reports an asynchronous
// error, where the real library would hang or mix data up.

#include <cstdint>
#include <string>

namespace emulator {

/// Makes the n-th operation from now (1: the next), over all ranks of the process, fail on its rank; 0: none. The
/// communicator reports an asynchronous error, and the operation never ends.
void fail_nccl_operation(std::int64_t n);

/// From here on a call waits for the other ranks before it returns, as the real one does where it connects to them.
void connect_in_nccl_calls();

/// How many calls were captured while NCCL was to register their buffers by itself; forgets them.
std::int64_t captured_nccl_registrations();

/// Devices issue work of several communicators in some order; where two devices share communicators, it must be the
/// same. Returns what differs, "" if nothing does, and forgets the orders.
std::string nccl_issue_orders();

/// Communicators that are open in this process, all ranks' counted.
std::int64_t open_nccl_communicators();

}  // namespace emulator
