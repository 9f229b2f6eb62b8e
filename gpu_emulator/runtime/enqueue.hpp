#pragma once
// The emulated CUDA runtime, as the rest of the emulator and the tests see it. Streams are threads with queues; device
// memory is host memory that only their work may touch.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

namespace emulator {

/// Enqueues work on a stream: what a kernel launch, a copy or a library call comes to. While the stream is captured,
/// the work becomes a node of the graph, and runs at every replay. An exception fails the stream: later calls return
/// cudaErrorLaunchFailure, and its text is printed. A null stream is the device's default one.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Sets the number of GPUs (1 at start). GPUs may be taken away only before their first use.
void set_device_count(int count);

/// The calling thread sees only so many from the first on, as a task of a job system may; numbers count from there.
/// With a count of 0 it sees all.
void see_devices(int first, int count);

/// The GPUs' compute capability (9.0 at start). Below 8.0 they have no code of any kernel.
void set_capability(int major, int minor);
/// Its first number.
int capability();
/// The compute capability that the kernels' code tells that it was compiled for (90 at start).
void set_code_capability(int number);
/// How much shared memory a block can have: 99 KiB with 8.6 and 8.9, otherwise 163 KiB, as with 8.0.
int shared_memory();

/// Some pieces of work start late, and nodes of graphs run in other orders that their edges allow, by this seed; 0:
/// none of it. The start is seed 1.
void set_chaos(std::uint64_t seed);

/// In which order a kernel's warps, parted lanes and blocks come. 0: ascending (the start value is the environment's
/// TESSERA_EMULATOR_SEED); otherwise an order drawn from the seed.
void set_order_seed(std::uint64_t seed);

/// Bytes of device memory that are allocated, over all devices, and how often memory of either kind was allocated.
std::int64_t allocated_bytes();
std::int64_t allocations();

/// How many graphs were launched.
std::int64_t graph_launches();

/// Whether the driver can write words as work of a stream (cuStreamWriteValue32); it can at start.
void set_stream_writes(bool can);

/// From here on the driver no longer answers, and a caller that asks for an event never returns.
void stick_driver();

/// The exception of the last piece of work that failed; empty if none did. The call clears it.
std::string take_failure();

}  // namespace emulator
