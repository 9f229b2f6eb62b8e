#pragma once
// Two kinds of trouble with a file: what is damaged stays so, what cannot be read now may be whole.

#include "tessera/base/error.hpp"

namespace tessera {

/// A file is there, or may be, and the system refused to open or read it: disk, network, permissions, limits. Any other
/// IoError of reading says that the file is missing or is not what was written.
class UnreadableError : public IoError {
 public:
  using IoError::IoError;
};

}  // namespace tessera
