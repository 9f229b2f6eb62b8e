#pragma once
// The verdict on cuDNN's attention backward in a fixed order, from repetitions on the GPU itself. Deterministic runs
// take it where all had the same bits and it was faster than our own (docs/numerics.md, contract 2).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera {

struct AttentionVerdict {
  static constexpr std::int64_t kRepetitions = 8;
  std::int64_t own = 0, ordered = 0;  ///< nanoseconds of a call; `ordered` is 0 where the library offers none
  std::int64_t same = 0;              ///< repetitions with the first one's bits, itself too; 0: the result was wrong

  bool takes_ordered() const { return same == kRepetitions && ordered < own; }
  /// Returns "2.01 ms by own kernels, 1.48 ms in order, 8 of 8 times the same bits".
  std::string description() const;
};

/// By shape, strides and type (AttentionProblem::key_numbers).
using AttentionVerdicts = std::map<std::vector<std::int64_t>, AttentionVerdict>;

/// Writes a line for each: "attention", numbers of the key, a colon, "ordered" or "own", numbers of the verdict.
std::string text_of(const AttentionVerdicts& verdicts);
/// Takes such lines from the front of `text`. IoError for lines that text_of() does not make.
AttentionVerdicts take_verdicts(std::string& text);

}  // namespace tessera
