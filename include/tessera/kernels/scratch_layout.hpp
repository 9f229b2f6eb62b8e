#pragma once
// Cuts one piece of memory into aligned arrays. The same sequence of take() calls, without memory, gives the size
// needed, so that a declared size and its use cannot drift apart.

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"

namespace tessera {

class ScratchLayout {
 public:
  static constexpr std::int64_t kAlignment = 64;

  /// Counts only: take() returns null.
  ScratchLayout() = default;
  /// Cuts up `capacity` bytes at `memory` (aligned to 64).
  ScratchLayout(void* memory, std::int64_t capacity) : memory_(static_cast<std::byte*>(memory)), capacity_(capacity) {}

  /// Cuts off the next `elements`, uninitialised. InternalError if they are beyond the capacity.
  template <class T>
  T* take(std::int64_t elements) {
    const std::int64_t at = used_;
    used_ = checked_add(used_, round_up(checked_multiply(elements, static_cast<std::int64_t>(sizeof(T))), kAlignment));
    if (memory_ == nullptr) return nullptr;
    TESSERA_ASSERT(used_ <= capacity_, "scratch of {} bytes holds {}", capacity_, used_);
    return reinterpret_cast<T*>(memory_ + at);
  }
  void* take_bytes(std::int64_t bytes) { return take<std::byte>(bytes); }
  /// Cuts off a [rows, columns] matrix.
  void* take_matrix(std::int64_t rows, std::int64_t columns, DType dtype) {
    return take_bytes(checked_multiply(checked_multiply(rows, columns), size_of(dtype)));
  }

  /// Returns the bytes that were cut off so far.
  std::int64_t used() const { return used_; }

 private:
  std::byte* memory_ = nullptr;
  std::int64_t capacity_ = 0, used_ = 0;
};

/// The bytes that a layout takes.
template <class Layout, class... Shape>
std::int64_t scratch_bytes_of(const Shape&... shape) {
  ScratchLayout scratch;
  Layout(scratch, shape...);
  return scratch.used();
}

}  // namespace tessera
