#pragma once
// A POSIX file descriptor that closes itself.

#include <unistd.h>

#include "tessera/base/unique_handle.hpp"

namespace tessera {

struct CloseFile {
  static int none() { return -1; }
  void operator()(int file) const { ::close(file); }
};
using FileDescriptor = UniqueHandle<int, CloseFile>;

}  // namespace tessera
