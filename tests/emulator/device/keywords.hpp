#pragma once
// Before anything of CUDA in an emulated source (the build includes this first): its keywords as plain C++ has them. A
// block runs on one thread, so what its threads share is that thread's.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__ static thread_local
#define __grid_constant__
