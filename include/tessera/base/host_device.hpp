#pragma once
// Macros for functions shared by hosts and GPUs: under nvcc they are compiled for both.

#if defined(__CUDACC__)
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif
