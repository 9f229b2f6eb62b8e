#include "checkpoint/shard_layout.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/files/hdf5_dataset.hpp"

namespace tessera {

namespace {

constexpr const char* kFormat = "tessera checkpoint shard";

Hdf5Dataset create_numbers(hid_t file, const std::string& name, std::int64_t elements, DType dtype) {
  const std::string what = creating(file, name);
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), what));
  hdf5_check(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), what);
  hdf5_check(H5Pset_alloc_time(properties.id(), H5D_ALLOC_TIME_EARLY), what);
  return create_hdf5_dataset(file, name, hdf5_float_type(dtype).id(), simple_space({elements}), properties);
}

/// Returns the first byte of a dataset in its file; 0 for an empty one, which has none.
std::int64_t offset_of(const Hdf5Dataset& dataset, std::int64_t elements) {
  if (elements == 0) return 0;
  const haddr_t offset = H5Dget_offset(dataset.id());
  if (offset == HADDR_UNDEF) throw IoError("{} is not contiguous", hdf5_name(dataset.id()));
  return static_cast<std::int64_t>(offset);
}

std::int64_t offset_of_checked(hid_t file, const std::string& name, std::int64_t elements, DType dtype) {
  const Hdf5Dataset dataset = open_hdf5_dataset(file, name);
  const Hdf5Type type(hdf5_check_id(H5Dget_type(dataset.id()), fmt::format("cannot read the type of {}", name)));
  if (H5Tequal(type.id(), hdf5_float_type(dtype).id()) <= 0)
    throw IoError("{} is not little-endian {}", hdf5_name(dataset.id()), name_of(dtype));
  const std::vector<std::int64_t> shape = shape_of(dataset);
  if (shape.size() != 1 || shape.front() != elements) {
    throw IoError("{} has {} elements, but its runs need {}", hdf5_name(dataset.id()), elements_of_shape(shape),
                  elements);
  }
  return offset_of(dataset, elements);
}

}  // namespace

FileRecord create_shard_layout(const std::filesystem::path& path, std::int64_t writer,
                               const std::vector<TensorRecord>& tensors, const std::vector<ElementRun>& runs,
                               StateContent content) {
  FileRecord record;
  record.name = path.filename().string();
  record.content = content;
  record.runs = runs;
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const TensorRecord& tensor : tensors) names.push_back(tensor.name);
  std::vector<std::int64_t> table;
  for (const ElementRun& run : runs) table.insert(table.end(), {run.tensor, run.first, run.count});

  Hdf5File file = Hdf5File::create(path);
  hdf5_write_attribute(file.id(), "format", kFormat);
  hdf5_write_attribute(file.id(), "format_version", kCheckpointSchema);
  hdf5_write_attribute(file.id(), "writer", writer);
  hdf5_write_strings(file.id(), "tensors", names);
  hdf5_write<std::int64_t>(file.id(), "runs", table, {static_cast<std::int64_t>(runs.size()), 3});
  for (const StateKind kind : kinds_of(content)) {
    const std::int64_t elements = elements_of(runs, kind, tensors);
    const Hdf5Dataset dataset =
        create_numbers(file.id(), std::string(name_of(kind)), elements, dtype_of(kind, tensors));
    record.offsets[static_cast<std::size_t>(kind)] = offset_of(dataset, elements);
  }
  file.close();
  record.bytes = size_of_file(path);
  // The stream of a rank whose data another rank writes has this order (checkpoint_stream.cpp).
  std::int64_t end = 0;
  for (const StateKind kind : kinds_of(content)) {
    const auto i = static_cast<std::size_t>(kind);
    const std::int64_t bytes = bytes_of(runs, kind, tensors);
    if (bytes == 0) continue;
    const std::int64_t begin = std::exchange(end, record.offsets[i] + bytes);
    TESSERA_ASSERT(record.offsets[i] >= begin && end <= record.bytes,
                   "{}: {} lies at byte {} of {}, not in the order of kinds", path.string(), name_of(kind),
                   record.offsets[i], record.bytes);
  }
  return record;
}

FileRecord read_shard_layout(const std::filesystem::path& path, const std::vector<TensorRecord>& tensors,
                             StateContent content) {
  const Hdf5File file = Hdf5File::open(path);
  if (hdf5_read_attribute<std::string>(file.id(), "format") != kFormat)
    throw IoError("{} is not a shard of a checkpoint", path.string());
  const auto names = hdf5_read_strings(file.id(), "tensors");
  const bool same = names.size() == tensors.size() &&
                    std::equal(names.begin(), names.end(), tensors.begin(),
                               [](const std::string& name, const TensorRecord& t) { return name == t.name; });
  if (!same) throw IoError("{} lists other tensors than the manifest", path.string());
  const std::vector<std::int64_t> table = hdf5_read<std::int64_t>(file.id(), "runs");
  if (table.size() % 3 != 0) throw IoError("{}: runs are not triples", path.string());
  FileRecord record;
  record.name = path.filename().string();
  record.content = content;
  for (std::size_t i = 0; i < table.size(); i += 3) record.runs.push_back({table[i], table[i + 1], table[i + 2]});
  std::int64_t all = 0;
  for (const ElementRun& run : record.runs) {
    if (run.count < 0) throw IoError("{} has a run of {} elements", path.string(), run.count);
    if (run.tensor < 0 || run.tensor >= std::ssize(tensors))
      throw IoError("{} has a run of the unknown tensor {}", path.string(), run.tensor);
    all = checked_add(all, run.count);
  }
  for (const StateKind kind : kinds_of(content)) {
    const std::int64_t elements = elements_of(record.runs, kind, tensors);
    record.offsets[static_cast<std::size_t>(kind)] =
        offset_of_checked(file.id(), std::string(name_of(kind)), elements, dtype_of(kind, tensors));
  }
  return record;
}

}  // namespace tessera
