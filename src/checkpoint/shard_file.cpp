#include "tessera/checkpoint/shard_file.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/block_file.hpp"
#include "checkpoint/block_pipeline.hpp"
#include "checkpoint/shard_layout.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// Fills blocks of the file one after the other: elements come from the source, and HDF5's bytes between the datasets
/// from the file.
class BlockFiller {
 public:
  BlockFiller(const FileDescriptor& file, const std::filesystem::path& path, const FileRecord& record,
              const std::vector<TensorRecord>& tensors, const ElementSource& source)
      : file_(file), path_(path), source_(source) {
    for (const StateKind kind : kinds_of(record.content)) {
      const std::int64_t bytes = bytes_of(record.runs, kind, tensors);
      const DType dtype = dtype_of(kind, tensors);
      if (bytes > 0) datasets_.push_back({record.offsets[static_cast<std::size_t>(kind)], bytes, kind, dtype});
    }
    std::ranges::sort(datasets_, {}, &Dataset::first);
  }

  /// Fills file bytes [first, first + bytes) into `out`.
  void fill(std::int64_t first, std::int64_t bytes, std::byte* out) {
    std::int64_t at = first;
    const std::int64_t end = first + bytes;
    while (at < end) {
      while (next_ < datasets_.size() && at >= datasets_[next_].first + datasets_[next_].bytes) ++next_;
      const std::int64_t begin_of_data = next_ < datasets_.size() ? datasets_[next_].first : end;
      if (at < begin_of_data) {
        const std::int64_t stop = std::min(end, begin_of_data);
        read_at(file_, path_, at, out + (at - first), stop - at);
        at = stop;
        continue;
      }
      const std::int64_t stop = std::min(end, begin_of_data + datasets_[next_].bytes);
      copy_elements(datasets_[next_], at - begin_of_data, stop - at, out + (at - first));
      at = stop;
    }
  }

 private:
  struct Dataset {
    std::int64_t first = 0, bytes = 0;  ///< in the file
    StateKind kind = StateKind::parameter;
    DType dtype = DType::fp32;
  };

  /// Copies bytes [first, first + bytes) of a dataset. Asks the source for full elements, each once, so an element that
  /// a block's border cuts is kept for the next block.
  void copy_elements(const Dataset& dataset, std::int64_t first, std::int64_t bytes, std::byte* out) {
    const std::int64_t each = size_of(dataset.dtype);
    if (first % each != 0) {
      const std::int64_t rest = std::min(bytes, each - first % each);
      std::copy_n(cut_.begin() + first % each, rest, out);
      first += rest, bytes -= rest, out += rest;
    }
    const std::int64_t whole = bytes / each;
    if (whole > 0) {
      // Blocks and datasets need not be aligned to each other.
      if (dataset.dtype == DType::fp32 && reinterpret_cast<std::uintptr_t>(out) % alignof(float) == 0) {
        source_(dataset.kind, first / each, {reinterpret_cast<float*>(out), static_cast<std::size_t>(whole)});
      } else {
        convert(dataset, first / each, whole, out);
      }
      first += whole * each, bytes -= whole * each, out += whole * each;
    }
    if (bytes > 0) {
      convert(dataset, first / each, 1, cut_.data());
      std::copy_n(cut_.begin(), bytes, out);
    }
  }

  /// Converts elements [first, first + count) of a dataset from the source's fp32, which is exact.
  void convert(const Dataset& dataset, std::int64_t first, std::int64_t count, std::byte* out) {
    scratch_.resize(static_cast<std::size_t>(count));
    source_(dataset.kind, first, scratch_);
    tessera::convert(scratch_.data(), DType::fp32, out, dataset.dtype, count);
  }

  const FileDescriptor& file_;
  const std::filesystem::path& path_;
  const ElementSource& source_;
  std::vector<Dataset> datasets_;  ///< ascending
  std::size_t next_ = 0;
  std::array<std::byte, sizeof(float)> cut_ = {};
  std::vector<float> scratch_;
};

}  // namespace

void run_hdf5_here(const std::function<void()>& task) { task(); }

std::string shard_name(std::int64_t writer) { return fmt::format("shard-{:05}.h5", writer); }

FileRecord write_shard(const std::filesystem::path& folder, std::int64_t writer,
                       const std::vector<TensorRecord>& tensors, const std::vector<ElementRun>& runs,
                       const ElementSource& source, const RunHdf5& hdf5, Tristate direct, StateContent content,
                       NearFile* near) {
  const std::filesystem::path path = folder / shard_name(writer);
  FileRecord record;
  hdf5([&] { record = create_shard_layout(path, writer, tensors, runs, content); });
  record.block_bytes = kBlockBytes;
  const FileDescriptor file = open_file(path, OpenFor::writing);
  reserve_space(file, path, record.bytes);
  {
    BlockFiller filler(file, path, record, tensors, source);
    BlockPipeline pipeline(file, path, record, direct, near);
    for (std::int64_t first = 0; first < record.bytes; first += record.block_bytes) {
      std::byte* block = pipeline.begin();
      filler.fill(first, std::min(record.block_bytes, record.bytes - first), block);
      pipeline.submit();
    }
    pipeline.finish();
  }
  sync_file(file, path);
  return record;
}

}  // namespace tessera
