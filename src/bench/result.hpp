#pragma once
// The result of a bench, as text and as tables for files.

#include <string>
#include <vector>

#include "tessera/files/table_file.hpp"
#include "tessera/record/run_facts.hpp"

namespace tessera {

struct BenchResult {
  std::string text;
  std::vector<Table> tables;
  GpuFacts gpu;
  std::string kernels;  ///< their description, as in provenance
};

}  // namespace tessera
