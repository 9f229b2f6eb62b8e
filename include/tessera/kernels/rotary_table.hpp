#pragma once
// The table of cosines and sines that Rotate reads.

#include <cstdint>
#include <vector>

namespace tessera {

/// How Llama 3.1 and later stretch rotary positions over a longer context ("llama3" in config.json). Wavelengths above
/// original_context / low_freq_factor grow by `factor`, those below original_context / high_freq_factor stay, and
/// between them the change is gradual. Without an original context all grow ("linear").
struct RopeScaling {
  std::int64_t original_context = 0;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  bool is_linear() const { return original_context == 0; }
  bool on() const { return !is_linear() || factor != 1; }
  bool operator==(const RopeScaling&) const = default;
};

struct RotaryTable {
  std::int64_t width = 0;       ///< of a head
  double theta = 0, scale = 1;  ///< cosines and sines are multiplied by `scale`
  RopeScaling scaling = {};
  bool operator==(const RotaryTable&) const = default;
};

/// Computes cosine and sine of each position's angles, [positions, width / 2, 2]. Angle i of position p is p / theta^(2
/// i / width) (Su et al. 2021), its frequency scaled by RopeScaling. Computed in double and rounded once. Hugging Face
/// multiplies position and frequency in fp32, so its angles are off by up to 6e-8 of the angle.
std::vector<float> rotary_values(const RotaryTable& table, std::int64_t positions);

}  // namespace tessera
