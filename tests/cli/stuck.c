/* Preloaded by tests: calls that never return. STUCK_FSYNC=RANK: fsync on that rank, as on a disk that is gone.
   STUCK_BACKTRACE: a trace of the stack, as in a process whose heap is damaged. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hang(void) {
  for (;;) sleep(3600);
}

int fsync(int file) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *stuck = getenv("STUCK_FSYNC");
  if (rank != NULL && stuck != NULL && strcmp(rank, stuck) == 0) hang();
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int backtrace(void** frames, int most) {
  if (getenv("STUCK_BACKTRACE") != NULL) hang();
  return ((int (*)(void**, int))dlsym(RTLD_NEXT, "backtrace"))(frames, most);
}
