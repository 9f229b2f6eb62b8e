#pragma once
// Buffers that detect writes outside of them, and values of any storage type as doubles.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fp8_numbers.hpp"
#include "tessera/base/dtype.hpp"

namespace tessera::testing {

/// A piece of memory that a test owns, found by any address inside: kernels of a GPU get a copy of the whole piece.
class Block {
 public:
  explicit Block(std::int64_t bytes) : bytes_(bytes), memory_(new std::byte[static_cast<std::size_t>(bytes)]) {
    std::memset(memory_.get(), 0xff, static_cast<std::size_t>(bytes));
    all()[memory_.get()] = bytes;
  }
  ~Block() { forget(); }
  Block(Block&&) noexcept = default;
  Block& operator=(Block&& other) noexcept {
    forget();
    bytes_ = other.bytes_;
    memory_ = std::move(other.memory_);
    return *this;
  }
  std::byte* data() { return memory_.get(); }

  struct Place {
    std::byte* data = nullptr;  ///< null: no block
    std::int64_t bytes = 0;
  };
  static Place find(const void* address) {
    auto it = all().upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
    if (it == all().begin()) return {};
    --it;
    return address < it->first + it->second ? Place{it->first, it->second} : Place{};
  }

 private:
  static std::map<std::byte*, std::int64_t>& all() {
    static std::map<std::byte*, std::int64_t> blocks;
    return blocks;
  }
  void forget() {
    if (memory_ != nullptr) all().erase(memory_.get());
  }
  std::int64_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

/// Bytes with 64 guard bytes on either side, filled with a pattern that reads as NaN in every float type.
class Guarded {
 public:
  explicit Guarded(std::int64_t bytes = 0) : bytes_(bytes), memory_(bytes + 2 * kGuard + 64) {}
  /// A copy has its own alignment: contents are copied, not their address.
  Guarded(const Guarded& other) : Guarded(other.bytes_) {
    std::memcpy(data(), other.data(), static_cast<std::size_t>(bytes_));
  }
  Guarded(Guarded&&) noexcept = default;
  Guarded& operator=(Guarded other) noexcept {
    bytes_ = other.bytes_;
    memory_ = std::move(other.memory_);
    return *this;
  }
  void* data() { return start(); }
  const void* data() const { return const_cast<Guarded*>(this)->start(); }
  std::int64_t bytes() const { return bytes_; }
  bool intact() const {
    const auto* from = const_cast<Guarded*>(this)->start();
    for (std::int64_t i = 1; i <= kGuard; ++i) {
      if (from[-i] != std::byte{0xff} || from[bytes_ + i - 1] != std::byte{0xff}) return false;
    }
    return true;
  }
  template <class T>
  T* as() {
    return static_cast<T*>(data());
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data());
  }

 private:
  static constexpr std::int64_t kGuard = 64;
  std::byte* start() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    return memory_.data() + kGuard + ((64 - address % 64) % 64);
  }
  std::int64_t bytes_;
  Block memory_;
};

/// Reads elements of a storage type as doubles.
inline std::vector<double> to_doubles(const void* data, DType dtype, std::int64_t n) {
  if (dtype == DType::e4m3 || dtype == DType::e5m2) {
    return fp8_values(dtype == DType::e4m3 ? Fp8::e4m3 : Fp8::e5m2, static_cast<const std::uint8_t*>(data),
                      static_cast<std::size_t>(n));
  }
  std::vector<double> out(static_cast<std::size_t>(n));
  with_float_type(dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < n; ++i)
      out[static_cast<std::size_t>(i)] = static_cast<double>(static_cast<float>(static_cast<const T*>(data)[i]));
  });
  return out;
}

/// Stores doubles in a storage type, rounding each.
inline void from_doubles(const std::vector<double>& values, DType dtype, void* data) {
  with_float_type(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i)
      static_cast<T*>(data)[i] = static_cast<T>(static_cast<float>(values[i]));
  });
}

/// Returns ||out - reference|| / ||reference||; infinite when anything is not a number (so that NaN never passes).
inline double relative_error(const std::vector<double>& out, const std::vector<double>& reference) {
  double difference = 0, norm = 0;
  if (out.size() != reference.size()) return HUGE_VAL;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!std::isfinite(out[i]) || !std::isfinite(reference[i])) return HUGE_VAL;
    difference += (out[i] - reference[i]) * (out[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace tessera::testing
