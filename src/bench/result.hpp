#pragma once
// The result of a bench: as text and tables, and as the HDF5 file that bench.output names.

#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/files/table_file.hpp"
#include "tessera/record/run_facts.hpp"

namespace tessera {

struct BenchResult {
  std::string text;
  std::vector<Table> tables;
  GpuFacts gpu;
  Implementation kernels;    ///< as in provenance
  std::string algorithms{};  ///< of a GPU's matmuls, for the file of run.algorithms; empty: none were made
};

class BenchOutput {
 public:
  /// Makes the file on rank 0 if bench.output names one, before anything is measured. Throws UsageError if it exists.
  /// References must outlive the object.
  BenchOutput(World& world, const Options& options, const Invocation& invocation);

  /// Collective: prints the text on rank 0, and writes the tables there.
  void write(const BenchResult& result);

 private:
  World& world_;
  const Options& options_;
  const Invocation& invocation_;
  std::optional<TableFile> file_;
};

}  // namespace tessera
