// A job in which rank 1 cannot open the memory of rank 0 (failing_start constructor | shape). Or it hangs before MPI
// starts, before its end, or in it (start | end | finalize). Started by tests that check its end.

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>

#include "tessera/comm/world.hpp"

namespace {

bool refuses = false;
std::string hangs_at;

/// Or the only process, without a launcher.
bool is_rank_1() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) rank = std::getenv("PMI_RANK");
  return rank == nullptr || std::string(rank) == "1";
}

void hang_at(const std::string& place) {
  while (is_rank_1() && hangs_at == place) sleep(1);
}

}  // namespace

extern "C" int MPI_Finalize() {
  hang_at("finalize");
  return PMPI_Finalize();
}

/// Replaces the C library's.
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
  hangs_at = argv[1];
  refuses = hangs_at == "constructor";
  const bool hangs = hangs_at == "start" || hangs_at == "end" || hangs_at == "finalize";
  hang_at("start");
  tessera::World world(&argc, &argv, hangs ? 5 : 100);
  return world.run([&] {
    hang_at("end");
    if (hangs) return 0;
    world.set_ranks_per_node(1);
    refuses = true;
    world.set_ranks_per_node(world.size());
    return 0;
  });
}
