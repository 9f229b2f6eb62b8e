// A stand-in for the driver's library (libcuda.so.1) on machines without one. cuDNN hands it the kernels that it has
// compiled, and asks for nothing else while it makes a plan for a described device. Calls that only a device can answer
// report that this is not a driver.

// Functions that are looked up, but not called without a device.
#define NO_DRIVER(name) \
  extern "C" int name() { return 34; }
NO_DRIVER(cuCtxGetCurrent)
NO_DRIVER(cuCtxGetLimit)
NO_DRIVER(cuCtxPopCurrent)
NO_DRIVER(cuCtxPushCurrent)
NO_DRIVER(cuDeviceGet)
NO_DRIVER(cuGetErrorName)
NO_DRIVER(cuKernelGetAttribute)
NO_DRIVER(cuKernelGetFunction)
NO_DRIVER(cuKernelSetAttribute)
NO_DRIVER(cuLaunchCooperativeKernel)
NO_DRIVER(cuLaunchKernel)
NO_DRIVER(cuLaunchKernelEx)
NO_DRIVER(cuLibraryLoadFromFile)
NO_DRIVER(cuLinkAddData)
NO_DRIVER(cuLinkComplete)
NO_DRIVER(cuLinkCreate)
NO_DRIVER(cuLinkDestroy)
NO_DRIVER(cuModuleGetFunction)
NO_DRIVER(cuModuleLoadData)
NO_DRIVER(cuModuleUnload)
NO_DRIVER(cuOccupancyMaxPotentialClusterSize)
NO_DRIVER(cuStreamGetCtx)
NO_DRIVER(cuTensorMapEncodeIm2col)
NO_DRIVER(cuTensorMapEncodeTiled)
#undef NO_DRIVER

namespace {

constexpr int kSuccess = 0, kStubLibrary = 34;
char something;

}  // namespace

extern "C" {

int cuInit(unsigned) { return kStubLibrary; }
int cuDriverGetVersion(int* version) {
  *version = 0;
  return kStubLibrary;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return kStubLibrary;
}
int cuGetErrorString(int, const char** text) {
  *text = "a stand-in for the driver";
  return kSuccess;
}
int cuThreadExchangeStreamCaptureMode(int*) { return kSuccess; }

int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = &something;
  return kSuccess;
}
int cuLibraryUnload(void*) { return kSuccess; }
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &something;
  return kSuccess;
}

}  // extern "C"
