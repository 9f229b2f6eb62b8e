#pragma once
// What a bench found, for people and for files.

#include <string>
#include <vector>

#include "app/run_facts.hpp"
#include "tessera/io/table_file.hpp"

namespace tessera {

struct BenchResult {
  std::string text;
  std::vector<Table> tables;
  GpuFacts gpu;
  std::string kernels;  ///< what computed, as in provenance
};

}  // namespace tessera
