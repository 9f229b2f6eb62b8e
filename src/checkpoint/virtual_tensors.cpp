
#include "checkpoint/block_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/checkpoint/shard_file.hpp"
#include "tessera/files/array_boxes.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/fresh_output.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_dataset.hpp"

namespace tessera {

namespace {

constexpr const char* kMaking = "cannot make a virtual dataset";

/// Maps boxes of the tensor onto a run of a shard's dataset, which has `length` elements.
void map_piece(const Hdf5Properties& properties, const Hdf5Space& space, const TensorRecord& tensor,
               const PlacedRun& piece, std::int64_t length, const std::string& file, const std::string& dataset) {
  const Hdf5Space source = simple_space({length});
  auto at = static_cast<hsize_t>(piece.offset);
  for_each_box(tensor.shape, piece.first, piece.count, [&](const ArrayBox& box) {
    const auto count = static_cast<hsize_t>(box.elements);
    hdf5_check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, box.start.data(), nullptr, box.count.data(), nullptr),
               kMaking);
    hdf5_check(H5Sselect_hyperslab(source.id(), H5S_SELECT_SET, &at, nullptr, &count, nullptr), kMaking);
    hdf5_check(H5Pset_virtual(properties.id(), space.id(), file.c_str(), dataset.c_str(), source.id()), kMaking);
    at += count;
  });
}

void create_virtual(hid_t group, const TensorRecord& tensor, const std::vector<PlacedRun>& pieces,
                    const std::vector<FileRecord>& files, const std::vector<std::int64_t>& lengths, StateKind kind) {
  const std::string dataset(name_of(kind));
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), kMaking));
  const float missing = std::nanf("");
  hdf5_check(H5Pset_fill_value(properties.id(), H5T_NATIVE_FLOAT, &missing), kMaking);
  const Hdf5Space space = simple_space(tensor.shape);
  for (const PlacedRun& piece : pieces)
    map_piece(properties, space, tensor, piece, lengths[piece.file], files[piece.file].name, dataset);
  const Hdf5Type type = hdf5_float_type(dtype_of(kind, tensor.moments));
  create_hdf5_dataset(group, tensor.name, type.id(), simple_space(tensor.shape), properties);
}

/// Returns which state the shards of a checkpoint keep.
StateContent content_of(const std::vector<FileRecord>& files) {
  return files.empty() ? StateContent::full : files.front().content;
}

/// Sources are named relative to the file's folder, so that the file itself may be renamed.
void write_virtual_file(const std::filesystem::path& path, const std::vector<TensorRecord>& tensors,
                        const std::vector<FileRecord>& files, const RunHdf5& hdf5) {
  hdf5([&] {
    Hdf5File file = Hdf5File::create(path, Hdf5File::Create::truncate);
    hdf5_write_attribute(file.id(), "format", "tessera checkpoint tensors");
    hdf5_write_attribute(file.id(), "format_version", kCheckpointSchema);
    for (const StateKind kind : kinds_of(content_of(files))) {
      const Hdf5Group group = hdf5_create_group(file.id(), std::string(name_of(kind)));
      const auto pieces = places_by_tensor(tensors, files, kind);
      std::vector<std::int64_t> lengths;
      for (const FileRecord& shard : files) lengths.push_back(elements_of(shard.runs, kind, tensors));
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (tensors[i].keeps(kind)) create_virtual(group.id(), tensors[i], pieces[i], files, lengths, kind);
    }
    file.close();
  });
  sync_file(open_file(path, OpenFor::reading), path);
}

}  // namespace

bool add_virtual_tensors(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / std::string(kVirtualName);
  if (path_exists(path) && index_defect(folder).empty()) return false;
  Manifest manifest = read_manifest(folder);
  std::erase_if(manifest.files, [](const FileRecord& file) { return !file.is_shard(); });
  ReplacedFile output(path);
  write_virtual_file(output.beside(), manifest.tensors, manifest.files, run_hdf5_here);
  output.finish();
  // After an interruption here the manifest has the checksums of another file, and the next call starts over.
  manifest.files.push_back(record_of(path));
  write_text_atomically(folder / std::string(kManifestName), manifest_text(manifest));
  return true;
}

FileRecord write_virtual_tensors(const std::filesystem::path& folder, const std::vector<TensorRecord>& tensors,
                                 const std::vector<FileRecord>& files, const RunHdf5& hdf5) {
  const std::filesystem::path path = folder / std::string(kVirtualName);
  write_virtual_file(path, tensors, files, hdf5);
  return record_of(path);
}

}  // namespace tessera
