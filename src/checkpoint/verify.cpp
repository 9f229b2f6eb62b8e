#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "checkpoint/block_file.hpp"
#include "checkpoint/shard_layout.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/hdf5_data.hpp"

namespace tessera {

namespace {

class Verifier {
 public:
  Verifier(const std::filesystem::path& folder, int threads, std::size_t limit)
      : folder_(folder), threads_(threads), limit_(limit) {}

  std::vector<std::string> run() {
    if (!guarded([&] { manifest_ = read_manifest(folder_); })) return problems_;
    for (const FileRecord& file : manifest_.files) {
      if (file.is_shard()) check_file(file);
    }
    return problems_;
  }

  /// tensors.h5 is written with the checkpoint (checkpoint.tensors), made later (tessera index), or not there.
  std::string index() {
    guarded([&] {
      manifest_ = read_manifest(folder_);
      const auto listed = std::ranges::find_if_not(manifest_.files, &FileRecord::is_shard);
      const bool is_sound = listed == manifest_.files.end() || check_file(*listed);
      if (is_sound && path_exists(folder_ / std::string(kVirtualName))) check_virtual();
    });
    return problems_.empty() ? std::string() : problems_.front();
  }

 private:
  void problem(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (problems_.size() < limit_) problems_.push_back(text);
  }

  /// Returns whether f() succeeded; records its exception as a problem.
  template <class F>
  bool guarded(F&& f) {
    try {
      f();
      return true;
    } catch (const std::exception& error) {  // also bad_alloc, from sizes claimed by a file
      problem(error.what());
      return false;
    }
  }

  /// Checks the size, every block's checksum, and that elements are finite; then HDF5's own view.
  bool check_file(const FileRecord& record) {
    const std::filesystem::path path = folder_ / record.name;
    std::size_t before = problems_.size();
    const bool readable = guarded([&] {
      const FileDescriptor file = open_file(path, OpenFor::reading);
      const std::int64_t bytes = size_of_file(file, path);
      if (bytes != record.bytes)
        throw IoError("{} has {} bytes, but {} were written", path.string(), bytes, record.bytes);
      std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(threads_));
      on_threads(static_cast<std::int64_t>(record.blocks.size()), threads_, [&](std::int64_t block, int thread) {
        auto& buffer = buffers[static_cast<std::size_t>(thread)];
        buffer.resize(static_cast<std::size_t>(record.block_bytes));
        const bool good = guarded([&] { read_block(file, path, record, block, buffer.data()); });
        if (good && record.is_shard()) check_finite(record, block, buffer.data());
      });
    });
    if (!readable || problems_.size() > before) return false;
    if (!record.is_shard()) return true;
    return guarded([&] {
      const FileRecord seen = read_shard_layout(path, manifest_.tensors, manifest_.content);
      if (seen.runs != record.runs) throw IoError("{}: its runs are not those of the manifest", path.string());
      if (seen.offsets != record.offsets)
        throw IoError("{}: its datasets are not where the manifest says", path.string());
    });
  }

  /// Names the first element of a block, and of each kind, that is not finite.
  void check_finite(const FileRecord& record, std::int64_t block, const std::byte* bytes) {
    const std::int64_t begin = block * record.block_bytes, end = begin + bytes_in_block(record, block);
    for (const StateKind kind : kinds_of(manifest_.content)) {
      const std::int64_t offset = record.offsets[static_cast<std::size_t>(kind)];
      // Elements that lie entirely in this block.
      const DType dtype = dtype_of(kind, manifest_.tensors);
      const std::int64_t each = size_of(dtype), first = begin <= offset ? 0 : ceil_div(begin - offset, each);
      const std::int64_t last =
          std::min(elements_of(record.runs, kind, manifest_.tensors), end <= offset ? 0 : (end - offset) / each);
      std::vector<float> values(static_cast<std::size_t>(std::max<std::int64_t>(0, last - first)));
      convert(bytes + (offset + each * first - begin), dtype, values.data(), DType::fp32, std::ssize(values));
      for (std::int64_t i = first; i < last; ++i) {
        const float value = values[static_cast<std::size_t>(i - first)];
        if (std::isfinite(value)) continue;
        problem(fmt::format("{}: {} of {} is {}", (folder_ / record.name).string(), name_of(kind),
                            element_name(record, kind, i), value));
        break;
      }
    }
  }

  std::string element_name(const FileRecord& record, StateKind kind, std::int64_t i) const {
    for (const ElementRun& run : record.runs) {
      if (!manifest_.tensors[static_cast<std::size_t>(run.tensor)].keeps(kind)) continue;
      if (i < run.count)
        return fmt::format("element {} of {}", run.first + i,
                           shown(manifest_.tensors[static_cast<std::size_t>(run.tensor)].name));
      i -= run.count;
    }
    return "an element outside of all runs";
  }

  /// Checks that every tensor is there under its name and shape. Its first and last elements must equal those in the
  /// shards.
  void check_virtual() {
    const CheckpointReader reader(folder_);
    const Hdf5File file = Hdf5File::open(folder_ / std::string(kVirtualName));
    for (const StateKind kind : kinds_of(manifest_.content)) {
      const Hdf5Group group = hdf5_open_group(file.id(), std::string(name_of(kind)));
      for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
        const TensorRecord& tensor = manifest_.tensors[i];
        if (!tensor.keeps(kind)) continue;
        const auto array = Hdf5Array<float>::open(group.id(), tensor.name);
        if (array.shape() != tensor.shape)
          throw IoError("{}: {} has another shape than the manifest says", kVirtualName, shown(tensor.name));
        for (const std::int64_t at : {std::int64_t{0}, tensor.elements / 2, tensor.elements - 1}) {
          float seen = 0, stored = 0;
          array.read(at, {&seen, 1});
          reader.read_tensor(kind, static_cast<std::int64_t>(i), at, {&stored, 1});
          if (std::bit_cast<std::uint32_t>(seen) != std::bit_cast<std::uint32_t>(stored))
            throw IoError("{}: element {} of {}/{} is {}, but a shard says {}",
                          (folder_ / std::string(kVirtualName)).string(), at, name_of(kind), shown(tensor.name), seen,
                          stored);
        }
      }
    }
  }

  const std::filesystem::path& folder_;
  int threads_;
  std::size_t limit_;
  Manifest manifest_;
  std::mutex mutex_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder, int threads, std::size_t limit) {
  return Verifier(folder, std::max(1, threads), limit).run();
}

std::string index_defect(const std::filesystem::path& folder) { return Verifier(folder, 1, 1).index(); }

}  // namespace tessera
