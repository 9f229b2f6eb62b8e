#pragma once
// Writes one shard file. HDF5 lays it out; the elements follow by plain writes at the offsets that HDF5 chose, with
// checksums computed on the way, so that bulk data does not hold HDF5's lock, and one pass over memory does both.

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/near.hpp"
#include "tessera/checkpoint/records.hpp"
#include "tessera/config/enums.hpp"

namespace tessera {

/// Gives elements [first, first + out.size()) of a dataset. Called on one thread, in the order of the file: kind after
/// kind, ascending.
using ElementSource = std::function<void(StateKind kind, std::int64_t first, std::span<float> out)>;

/// Runs a function that calls HDF5 (on the I/O thread, say) and returns when that function has returned.
using RunHdf5 = std::function<void(const std::function<void()>&)>;
void run_hdf5_here(const std::function<void()>& task);

/// Returns "shard-00007.h5".
std::string shard_name(std::int64_t writer);

/// Writes a shard and makes it durable, past the page cache if `direct` says so. `folder` must exist. `near` gets the
/// same bytes from the same blocks, so that the disk is not read again. Throws IoError.
FileRecord write_shard(const std::filesystem::path& folder, std::int64_t writer,
                       const std::vector<TensorRecord>& tensors, const std::vector<ElementRun>& runs,
                       const ElementSource& source, const RunHdf5& hdf5 = run_hdf5_here,
                       Tristate direct = Tristate::automatic, StateContent content = StateContent::full,
                       NearFile* near = nullptr);

/// Makes FOLDER/tensors.h5 of a published checkpoint, and lists it in the manifest; returns false if a sound one is
/// there. Throws IoError.
bool add_virtual_tensors(const std::filesystem::path& folder);

/// Writes FOLDER/tensors.h5 over the shards of `files` and makes it durable.
FileRecord write_virtual_tensors(const std::filesystem::path& folder, const std::vector<TensorRecord>& tensors,
                                 const std::vector<FileRecord>& files, const RunHdf5& hdf5 = run_hdf5_here);

}  // namespace tessera
