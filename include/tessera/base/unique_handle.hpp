#pragma once
// Owns a handle of a C library: gives it back once. (After cuDecomp's uniqueHandle.)

#include <utility>

namespace tessera {

/// `Close` gives a handle back when it is called, and has none(), the value that is not a handle. It deals with errors
/// of closing itself, because a destructor cannot throw.
template <class Handle, class Close>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(Handle handle, Close close) : handle_(handle), close_(close) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(other.release()), close_(other.close_) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = other.release();
      close_ = other.close_;
    }
    return *this;
  }
  ~UniqueHandle() { reset(); }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Close::none(); }
  /// Gives the handle to the caller, who closes it.
  Handle release() { return std::exchange(handle_, Close::none()); }
  void reset() {
    if (*this) close_(release());
  }

 private:
  Handle handle_ = Close::none();
  [[no_unique_address]] Close close_{};
};

}  // namespace tessera
