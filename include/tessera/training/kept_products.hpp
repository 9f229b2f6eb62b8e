#pragma once
// RUN/products.txt: which algorithms a GPU's matrix products run with, so that a restart has the same bits. Rank 0's.

#include <filesystem>
#include <string>

namespace tessera {

class KeptProducts {
 public:
  explicit KeptProducts(const std::filesystem::path& run_folder) : path_(run_folder / "products.txt") {}
  /// What an earlier part of the run kept; empty if there is none. IoError.
  std::string read();
  /// Replaces the file, where it would change. IoError.
  void write(const std::string& text);

 private:
  std::filesystem::path path_;
  std::string known_;  ///< what is in the file
};

}  // namespace tessera
