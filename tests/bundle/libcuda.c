// Stands in for the driver's libcuda.so.1, without a GPU. It loads another of the driver's libraries by name, as the
// driver does, and says so.
#include <dlfcn.h>
#include <stdio.h>

int cuInit(unsigned flags) {
  (void)flags;
  const char* const name = "libnvidia-ml.so.1";
  fprintf(stderr, "stand-in of " FOLDER ": %s %s\n", name, dlopen(name, RTLD_NOW) != NULL ? "found" : dlerror());
  return 100;  // CUDA_ERROR_NO_DEVICE
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
