#pragma once
// Messages between two ranks of a group, over MPI or inside one process. Algorithms on top are written once.

#include <cstdint>

namespace tessera {

/// A message under way.
struct MessageSlot {
  int index = -1;
};

/// Sends and receives. Owned by one thread at a time. Messages between two ranks with equal tags arrive in order. A
/// group has its own transport, so its messages never meet those of another. Nothing is allocated per message while at
/// most `kSlots` are under way.
class Transport {
 public:
  static constexpr int kSlots = 32;        ///< messages under way at a time, at most
  static constexpr int kMaxTag = 1 << 14;  ///< tags are 0 .. kMaxTag - 1

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts sending `bytes` (0 .. 2^31 - 1); `data` must stay until the message is finished.
  virtual MessageSlot start_send(int peer, int tag, const void* data, std::int64_t bytes) = 0;
  /// Starts receiving a message of `bytes` at most.
  virtual MessageSlot start_receive(int peer, int tag, void* data, std::int64_t bytes) = 0;
  /// Makes progress; true once the message is finished, and its slot free again.
  virtual bool finished(MessageSlot slot) = 0;
  /// Gives up all messages under way: after this no receive writes memory. May wait for a partly received one, and ends
  /// the process when the rest does not come.
  virtual void cancel() = 0;
};

}  // namespace tessera
