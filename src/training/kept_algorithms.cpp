#include "tessera/training/kept_algorithms.hpp"

#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

namespace {

constexpr const char* kFile = "gemm_algorithms.txt";

}  // namespace

std::string kept_algorithms(const std::filesystem::path& run_folder) try {
  return read_small_file(run_folder / kFile).value_or("");
} catch (const IoError& error) {
  std::error_code unseen;
  if (!std::filesystem::exists(run_folder / kFile, unseen)) throw;  // the run's folder is the trouble
  throw IoError("{}. Delete it, and algorithms are selected again.", error.what());
}

void keep_algorithms(const std::filesystem::path& run_folder, const std::string& text) {
  if (!text.empty() && read_small_file(run_folder / kFile) != text) write_text_atomically(run_folder / kFile, text);
}

}  // namespace tessera
