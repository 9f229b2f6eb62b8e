#pragma once
// RUN/gemm_algorithms.txt: the algorithms of a GPU's matmuls, so that a restart gives the same bits. Rank 0 only.

#include <filesystem>
#include <string>

namespace tessera {

class KeptAlgorithms {
 public:
  explicit KeptAlgorithms(const std::filesystem::path& run_folder) : path_(run_folder / "gemm_algorithms.txt") {}
  /// Returns the text that an earlier part of the run kept; empty if there is none. Throws IoError.
  std::string read();
  /// Replaces the file if it would change. Throws IoError.
  void write(const std::string& text);

 private:
  std::filesystem::path path_;
  std::string known_;  ///< the file's contents
};

}  // namespace tessera
