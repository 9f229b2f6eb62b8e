#pragma once
// What a bench found, for people and for files.

#include <string>
#include <vector>

#include "tessera/files/table_file.hpp"
#include "tessera/training/run_facts.hpp"

namespace tessera {

struct BenchResult {
  std::string text;
  std::vector<Table> tables;
  GpuFacts gpu;
  std::string kernels;  ///< what computed, as in provenance
};

}  // namespace tessera
