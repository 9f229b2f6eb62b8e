#pragma once
// An operation with addresses: what a schedule's operation becomes on one rank. Made once; playing allocates nothing.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/player.hpp"

namespace tessera {

struct Player::Bound {
  // compute
  PartBuffers buffers;
  std::vector<void*> saved, gradients;
  std::vector<const void*> parameters, constants;
  std::unique_ptr<bool[]> gradient_adds;
  std::vector<std::pair<std::byte*, std::int64_t>> gaps;  ///< padding of freshly written gradients: address, bytes
  bool starts_account = false;
  // collectives
  std::span<std::byte> scratch;  ///< lent for a sum; empty where it needs none
  // update
  AdamWArguments adamw;
  std::vector<DecayRun> runs;
  // store
  struct Copy {
    const float* from = nullptr;
    float* to = nullptr;
  };
  std::array<Copy, 3> copies;
  std::int64_t copied_elements = 0;  ///< of each
  // poison: storages that this operation touches and that do not outlive the segment
  std::vector<StorageId> touched;
  std::vector<StorageId> poisons;  ///< GPU: those that nobody touches after this operation
  std::string name;                ///< "gather h.3"
  // order
  std::vector<OperationId> waits;
  std::unique_ptr<Event> event;  ///< where another stream waits for this operation
};

}  // namespace tessera
