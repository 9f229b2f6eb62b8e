#pragma once
// RUN/gemm_algorithms.txt: the algorithms of a GPU's matmuls, so that a restart has the same bits. Rank 0's. Runs of
// version 0.1 have it as products.txt, which is read where the new name is missing.

#include <filesystem>
#include <string>

namespace tessera {

class KeptAlgorithms {
 public:
  static constexpr const char* kName = "gemm_algorithms.txt";
  static constexpr const char* kOldName = "products.txt";

  explicit KeptAlgorithms(std::filesystem::path run_folder) : folder_(std::move(run_folder)) {}
  /// Returns the text that an earlier part of the run kept; empty if there is none. IoError.
  std::string read();
  /// Replaces the file if it would change. IoError.
  void write(const std::string& text);

 private:
  std::filesystem::path folder_;
  std::string known_;  ///< what is in the file of the new name
};

}  // namespace tessera
