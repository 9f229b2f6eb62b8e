#pragma once
// What a segment is cut into where collectives are the host's work: graphs can have none of it, so they are captured
// between it.

#include <cstddef>
#include <memory>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/engine/player.hpp"

namespace tessera {

/// A stretch of a segment in list order: one collective of the host's on its lane, or operations that make up a graph
/// on compute's stream.
struct Player::Piece {
  OperationId first = 0, count = 0;
  bool on_host = false;
  std::vector<std::size_t> waits;      ///< pieces on other streams that this one comes after, by number
  std::unique_ptr<Event> end;          ///< where a segment has several
  std::unique_ptr<DeviceGraph> graph;  ///< once captured
  CommunicationCounts sends{};         ///< of a graph
};

}  // namespace tessera
