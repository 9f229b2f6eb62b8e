#pragma once
// The calls of kernels, one struct for each: what it computes, on which sizes and memory. Shapes are written as [rows,
// columns]; all matrices are row-major. Vectors are views of one row, whose stride nobody reads.
//
// Some kernels take a number `largest`, which may be null. They raise it to the largest magnitude of what they store,
// so that no other pass has to look for it. Magnitudes are compared by their bits in fp32, where infinity and NaN are
// above all others.

#include "tessera/kernels/arguments/account.hpp"
#include "tessera/kernels/arguments/activation.hpp"
#include "tessera/kernels/arguments/attention.hpp"
#include "tessera/kernels/arguments/dropout.hpp"
#include "tessera/kernels/arguments/elements.hpp"
#include "tessera/kernels/arguments/embedding.hpp"
#include "tessera/kernels/arguments/head.hpp"
#include "tessera/kernels/arguments/linear.hpp"
#include "tessera/kernels/arguments/norm.hpp"
#include "tessera/kernels/arguments/update.hpp"
