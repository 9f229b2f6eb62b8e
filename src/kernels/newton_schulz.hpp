#pragma once
// The numbers of Muon's Newton-Schulz iterations (Orthogonalize), for both kinds of kernels.

namespace tessera {

/// a, b, c of X = a X + (b G + c G G) X.
inline constexpr float kNewtonSchulz[] = {3.4445f, -4.7750f, 2.0315f};
/// The least norm that a matrix is divided by.
inline constexpr double kNewtonSchulzEpsilon = 1e-7;

}  // namespace tessera
