/* Preloaded by tests: calls that never return, or late. STUCK_FSYNC=RANK: fsync on that rank, as on a disk that is gone.
   STUCK_BACKTRACE: a trace of the stack, as in a process whose heap is damaged. SLOW_MATMULS=RANK: each matmul on that
   rank takes five milliseconds longer. STUCK_DATA=RANK: the thread that reads ahead there never returns from its 80th
   lock. CLOCK_JUMPS=RANK: the time of day on that rank is a day ahead in every other half second. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void hang(void) {
  for (;;) sleep(3600);
}

static int is_on(const char* variable) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *wanted = getenv(variable);
  return rank != NULL && wanted != NULL && strcmp(rank, wanted) == 0;
}

int fsync(int file) {
  if (is_on("STUCK_FSYNC")) hang();
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int backtrace(void** frames, int most) {
  if (getenv("STUCK_BACKTRACE") != NULL) hang();
  return ((int (*)(void**, int))dlsym(RTLD_NEXT, "backtrace"))(frames, most);
}

typedef int (*sgemm)(char, char, long, long, long, float, const float*, long, const float*, long, float, float*, long);

int dnnl_sgemm(char a_form, char b_form, long m, long n, long k, float alpha, const float* a, long a_stride,
               const float* b, long b_stride, float beta, float* c, long c_stride) {
  if (is_on("SLOW_MATMULS")) usleep(5000);
  return ((sgemm)dlsym(RTLD_NEXT, "dnnl_sgemm"))(a_form, b_form, m, n, k, alpha, a, a_stride, b, b_stride, beta, c,
                                                 c_stride);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static int (*real)(pthread_mutex_t*);
  static int locks;
  if (real == NULL) real = (int (*)(pthread_mutex_t*))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  char name[16] = "";
  if (is_on("STUCK_DATA") && pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
      strcmp(name, "batch reader") == 0 && ++locks == 80)
    hang();
  return real(mutex);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME && is_on("CLOCK_JUMPS") && now->tv_nsec >= 500000000) now->tv_sec += 86400;
  return (int)result;
}
