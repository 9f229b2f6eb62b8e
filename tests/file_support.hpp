#pragma once
// Common parts of several tests: files as text, safetensors files from parts, Python checks.

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "message_of.hpp"
#include "temporary_folder.hpp"

namespace tessera::test {

using tessera::testing::bytes_of;
using tessera::testing::TemporaryFolder;

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs SCRIPT of the tests' folder with the system's Python (the one that has h5py); returns its exit status.
inline int run_python(const std::string& script, const std::string& arguments) {
  const auto path = std::filesystem::path(TESSERA_REFERENCE_DIR).parent_path() / script;
  return std::system(("/usr/bin/python3 '" + path.string() + "' " + arguments).c_str());
}

struct RawTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

inline std::string header_text(const std::vector<RawTensor>& tensors) {
  std::ostringstream header;
  header << "{\"__metadata__\":{\"format\":\"pt\"}";
  std::size_t offset = 0;
  for (const RawTensor& tensor : tensors) {
    header << ",\"" << tensor.name << "\":{\"dtype\":\"" << tensor.dtype << "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) header << (i ? "," : "") << tensor.shape[i];
    header << "],\"data_offsets\":[" << offset << "," << offset + tensor.bytes.size() << "]}";
    offset += tensor.bytes.size();
  }
  header << "}";
  return header.str();
}

inline std::string safetensors_text(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string text(sizeof(size), '\0');
  std::memcpy(text.data(), &size, sizeof(size));
  return text + header + data;
}

inline void write_safetensors(const std::filesystem::path& path, const std::vector<RawTensor>& tensors) {
  std::string data;
  for (const RawTensor& tensor : tensors) data += tensor.bytes;
  write_file(path, safetensors_text(header_text(tensors), data));
}

}  // namespace tessera::test
