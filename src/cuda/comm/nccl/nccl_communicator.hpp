#pragma once
// Collectives of NCCL over one group, enqueued on the caller's stream.

#include <memory>
#include <span>
#include <string>

#include "comm/collective_call.hpp"
#include "cuda/comm/nccl/nccl_api.hpp"
#include "cuda/comm/nccl/nccl_watchdog.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera {

/// The common settings of one rank's communicators. Everything in it outlives them.
struct NcclContext {
  RankContext* context = nullptr;
  Device* device = nullptr;
  NcclWatchdog* watchdog = nullptr;
  bool deterministic = true;
  bool external_workspace = false;  ///< receives go into an external workspace
  double timeout_seconds = 0;
  void* shared = nullptr;  ///< the rank's shared region
};

class NcclCommunicator final : public CountingCommunicator {
 public:
  /// Collective over `members` (world ranks, the caller among them). `largest_contribution`: bytes of the largest one
  /// that is reduced here.
  NcclCommunicator(const NcclContext& context, const std::vector<std::int64_t>& members, std::string name,
                   std::int64_t largest_contribution);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return static_cast<int>(index_); }
  int size() const override { return static_cast<int>(size_); }
  /// Counts no time, because it is not known here: events on the stream measure it.
  void run(Stream& stream, const CollectiveCall& call) override;
  void set_workspace(std::span<std::byte> scratch) override;

  /// Runs each collective once. Uses its own memory, or the shared region (which must not hold anything yet) if its
  /// workspace is external. Collective; does not wait for the stream.
  void warm_up(Stream& stream);
  /// Throws CommunicationError when NCCL has reported an asynchronous error.
  void check() const;
  /// Returns the bytes of its own device memory.
  std::int64_t device_bytes() const { return own_->size() + token_->size(); }

 private:
  ncclUniqueId agree_on_id(const std::vector<std::int64_t>& members) const;
  void receive_terms(cudaStream_t stream, const std::byte* contribution, std::byte* received, DType dtype,
                     std::int64_t elements);
  /// Throws CommunicationError unless a function of NCCL succeeded.
  void succeed(ncclResult_t result, const char* function) const {
    if (result != ncclSuccess && result != ncclInProgress) context_.watchdog->look_now();
    check_nccl(result, function, name_);
  }
  void enqueue(Stream& stream, const CollectiveCall& call);
  void reduce_scatter(cudaStream_t stream, const CollectiveCall& call);
  void exchange(Stream& stream, const CollectiveCall& call);

  NcclContext context_;
  const NcclApi& nccl_;
  std::int64_t size_, index_;
  std::string name_;
  ncclComm_t comm_ = nullptr;
  std::int64_t largest_contribution_;
  std::unique_ptr<DeviceMemory> own_;    ///< receive buffer if there is no external workspace
  std::unique_ptr<DeviceMemory> token_;  ///< for barriers and warm_up: kTokenElements of every rank, twice
  std::span<std::byte>
      received_;  ///< contributions of others to this rank's slice: in own_ or in the external workspace
};

}  // namespace tessera
