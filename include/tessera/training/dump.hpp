#pragma once
// run.dump: loss, gradients and weights of one step in one HDF5 file, collected on rank 0 slice by slice.

#include <filesystem>
#include <memory>

#include "tessera/checkpoint/shard_file.hpp"
#include "tessera/run/dump_file.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// Collective over all ranks; only rank 0 writes. Call one before the step's update and the other after it. Rank 0
/// needs unplanned memory for one unit's slice, for this step only.
class StepDump {
 public:
  /// `hdf5` runs rank 0's calls of HDF5.
  StepDump(TrainingSession& session, RankContext& context, RunHdf5 hdf5, const std::filesystem::path& path);
  ~StepDump();

  /// Writes all gradients: summed over ranks and micro-steps, before clipping, without the loss scale.
  void write_gradients();
  /// Writes all weights and closes the file.
  void write_weights(std::int64_t step, const StepResult& result);

 private:
  /// Returns a tensor's number among those that train.
  TensorId number_in_file(const TensorRun& run) const;
  template <class Slice, class Write>
  void collect(const Slice& slice, const float* values, Write&& write);

  TrainingSession& session_;
  RankContext& context_;
  RunHdf5 hdf5_;
  std::unique_ptr<DumpFile> file_;
};

}  // namespace tessera
