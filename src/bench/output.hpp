#pragma once
// bench.output: the tables of a bench as an HDF5 file, with options and provenance.

#include <optional>

#include "bench/result.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/files/table_file.hpp"
#include "tessera/record/invocation.hpp"

namespace tessera {

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
