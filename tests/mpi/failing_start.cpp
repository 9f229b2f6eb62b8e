// A job in which rank 1 cannot open the memory of rank 0: failing_start constructor | shape. Started by tests that look
// at its end.

#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>

#include "tessera/comm/world.hpp"

namespace {

bool refuses = false;

bool is_rank_1() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank != nullptr && std::string(rank) == "1";
}

}  // namespace

/// Stands before the C library's.
extern "C" int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  const std::string name = path;
  if (refuses && is_rank_1() && name.rfind("/proc/", 0) == 0 && name.find("/fd/") != std::string::npos) {
    errno = EACCES;
    return -1;
  }
  return reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}

int main(int argc, char** argv) {
  refuses = std::string(argv[1]) == "constructor";
  tessera::World world(&argc, &argv);
  return world.run([&] {
    world.set_ranks_per_node(1);
    refuses = true;
    world.set_ranks_per_node(world.size());
    return 0;
  });
}
