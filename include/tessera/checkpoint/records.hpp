#pragma once
// The contents of a checkpoint. RUN/checkpoints/step-00000100/ holds
//   shard-NNNNN.h5   written by one writer: runs of elements of tensors, of parameters and the optimizer's states
//   tensors.h5       virtual datasets: every tensor under its Hugging Face name and shape (NaN: its shard is missing)
//   manifest.json    schema, step, grid, model, data position, optimizer, options, provenance,
//                    files with checksums
// Neither world size nor wrap nor padding shows. docs/manual/checkpoints.md describes the files for other readers.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/model/architecture.hpp"
#include "tessera/model/parts.hpp"
#include "tessera/optimizer/optimizer.hpp"
#include "tessera/optimizer/rules.hpp"

namespace tessera {

inline constexpr std::int64_t kCheckpointSchema = 1;
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kVirtualName = "tensors.h5";

/// Whether a checkpoint keeps everything that a run needs to continue, or only the parameters.
enum class StateContent : std::uint8_t { full, weights };
/// Returns the kinds of state in such a checkpoint, in the order of the files.
std::span<const StateKind> kinds_of(StateContent content);

/// Elements [first, first + count) of a tensor, row-major.
struct ElementRun {
  std::int64_t tensor = 0, first = 0, count = 0;  ///< `tensor`: its number in the manifest
  bool operator==(const ElementRun&) const = default;
};

/// A tensor as the manifest lists it.
struct TensorRecord {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  std::array<bool, kStateKinds> states = all_states();  ///< the states that its optimizer keeps
  DType moments = DType::fp32;  ///< the type of its states besides the parameter, the same for all tensors
  bool keeps(StateKind kind) const { return states[static_cast<std::size_t>(kind)]; }
  static constexpr std::array<bool, kStateKinds> all_states() {
    std::array<bool, kStateKinds> all{};
    all.fill(true);
    return all;
  }
  bool operator==(const TensorRecord&) const = default;
};
/// Returns the records of a model's tensors that train, with the states that an optimizer keeps for each.
std::vector<TensorRecord> tensor_records(const std::vector<ParameterTensor>& tensors,
                                         OptimizerName optimizer = OptimizerName::adamw, DType moments = DType::fp32);
/// Returns the type of a kind of state in the checkpoint of these tensors.
DType dtype_of(StateKind kind, const std::vector<TensorRecord>& tensors);

/// The expected properties of a checkpoint's file.
struct FileRecord {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t block_bytes = 0;       ///< the file is cut into blocks of this many bytes; the last one may be shorter
  std::vector<std::uint64_t> blocks;  ///< XXH3 (64 bit) of each
  // Of shards:
  StateContent content = StateContent::full;
  std::vector<ElementRun> runs;  ///< contents of each dataset, end to end; a dataset may lack some tensors
  std::array<std::int64_t, kStateKinds> offsets =
      {};                         ///< first byte of each dataset in the file; 0 for one that is not there
  std::int64_t elements() const;  ///< of the runs together
  bool is_shard() const { return name != kVirtualName; }
};

/// Returns how many elements of the runs have such a state.
std::int64_t elements_of(const std::vector<ElementRun>& runs, StateKind kind, const std::vector<TensorRecord>& tensors);
/// Returns the bytes of their dataset.
std::int64_t bytes_of(const std::vector<ElementRun>& runs, StateKind kind, const std::vector<TensorRecord>& tensors);

/// A run of a tensor in a file.
struct PlacedRun {
  std::int64_t first = 0, count = 0;  ///< elements of the tensor
  std::size_t file = 0;
  std::int64_t offset = 0;  ///< elements from the start of the file's datasets
};
/// Returns where shards keep the runs of each tensor that have such a state, in the order of the files.
std::vector<std::vector<PlacedRun>> places_by_tensor(const std::vector<TensorRecord>& tensors,
                                                     const std::vector<FileRecord>& files, StateKind kind);

/// The grid that wrote a checkpoint, for information only: nothing depends on it.
struct GridRecord {
  std::int64_t world = 1, shard_group = 1, replicas = 1, ranks_per_node = 1;
  std::string strategy;
};

/// A run's position in its data, and the settings that must not change for the sample order to continue.
struct DataPosition {
  bool known = false;  ///< false for imported weights: nothing below is set
  std::string fingerprint, order;
  std::int64_t sequence = 0, global_batch = 0, data_seed = 0, run_seed = 0;
  std::int64_t next_sample = 0;  ///< samples of the run so far
  std::int64_t first_batch = 0;  ///< the global batch with which the run began
};

using NamedTexts = std::vector<std::pair<std::string, std::string>>;
/// Names of validation sets (a single one may be nameless) and their losses.
using NamedLosses = std::vector<std::pair<std::string, double>>;

/// manifest.json.
struct Manifest {
  /// Returns where a run goes on from it.
  RunPosition position() const { return {step, data.next_sample, data.first_batch, data.sequence}; }
  /// Returns the type in which the optimizer's states were kept.
  DType moments() const { return tensors.empty() ? DType::fp32 : tensors.front().moments; }

  StateContent content = StateContent::full;
  /// Returns the value of one of `options`; empty if there is none.
  std::string option(std::string_view name) const;

  std::int64_t step = 0;
  GridRecord grid;
  Architecture architecture;  ///< with adapters: these are all that the checkpoint holds
  std::vector<TensorRecord> tensors;
  DataPosition data;
  OptimizerName updated_by = OptimizerName::adamw;
  OptimizerRecord optimizer;
  bool checked = false;    ///< the state had passed a check (run.check_every) when it was written
  NamedLosses evaluation;  ///< after this step; empty if there was none before the checkpoint
  NamedTexts options, provenance;
  std::vector<FileRecord> files;
};

}  // namespace tessera
