#pragma once
// Where the values of a schedule lie on this rank.

#include "tessera/engine/resources.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// The base class of those that bind operations.
class Addresses {
 protected:
  Addresses(const StepSchedule& schedule, const Resources& resources) : schedule_(schedule), resources_(resources) {}

  std::byte* at(ValueId value) const { return resources_.address(schedule_.value(value).storage); }
  View row(ValueId value) const { return {at(value), schedule_.value(value).dtype()}; }
  /// Returns where an operation's bucket begins in a value that it touches.
  std::byte* at_bucket(const Operation& op, ValueId value) const {
    const Value& v = schedule_.value(value);
    return at(value) + (v.first < 0 ? op.bucket.first * size_of(v.dtype()) : 0);
  }
  /// Returns null if the schedule does not need it.
  template <class T>
  T* address_of(Reserved which) const {
    const StorageId storage = schedule_.reserved(which);
    return storage ? reinterpret_cast<T*>(resources_.address(storage)) : nullptr;
  }

  const StepSchedule& schedule_;
  const Resources& resources_;
};

}  // namespace tessera
