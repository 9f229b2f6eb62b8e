#pragma once
// Distinguishes two faults of a file: damage is permanent, an unreadable file may be intact.

#include "tessera/base/error.hpp"

namespace tessera {

/// A file is there, or may be, and the system refused to open or read it: disk, network, permissions, limits. Any other
/// IoError of reading says that the file is missing or is not what was written.
class UnreadableError : public IoError {
 public:
  using IoError::IoError;
};

}  // namespace tessera
