#include "tessera/checkpoint/reader.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "checkpoint/block_file.hpp"
#include "checkpoint/open_files.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/near.hpp"

namespace tessera {

namespace {

/// While one thread compares and copies a block, another one reads, so that even a one-thread rank keeps the disk busy.
constexpr int kLeastThreads = 2;
/// Files that stay open from one block, and one call, to the next.
constexpr std::size_t kKeptOpen = 64;
/// Elements that are converted at a time.
constexpr std::int64_t kConverted = 1 << 20;

}  // namespace

/// Bytes of one block with one destination.
struct CheckpointReader::Piece {
  std::size_t file = 0;
  std::int64_t block = 0;
  std::int64_t first = 0, bytes = 0;  ///< in the block
  std::byte* to = nullptr;
};

CheckpointReader::CheckpointReader(const std::filesystem::path& folder, FileShare share)
    : CheckpointReader(folder, read_manifest(folder), share) {}

CheckpointReader::CheckpointReader(std::filesystem::path folder, Manifest manifest, FileShare share,
                                   const std::filesystem::path& near)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      near_(near_step(near, manifest_.step)),
      files_(std::make_unique<OpenFiles>(kKeptOpen)) {
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
    const FileRecord& record = manifest_.files[file];
    std::error_code error;  // with which the size is none
    is_near_.push_back(!near_.empty() && static_cast<std::int64_t>(
                                             std::filesystem::file_size(near_ / record.name, error)) == record.bytes);
    // Nothing is read from the file that is made from the shards.
    if (record.is_shard() && file % share.every == share.first && !is_near_[file]) check_size(record);
  }
  for (const StateKind kind : kinds_of(manifest_.content)) {
    auto& of_kind = places_[static_cast<std::size_t>(kind)];
    of_kind = places_by_tensor(manifest_.tensors, manifest_.files, kind);
    for (auto& places : of_kind) std::ranges::sort(places, {}, &PlacedRun::first);
  }
}

CheckpointReader::~CheckpointReader() = default;

void CheckpointReader::check_size(const FileRecord& record) const {
  const std::filesystem::path path = folder_ / record.name;
  const std::int64_t bytes = size_of_file(path);
  if (bytes == record.bytes) return;
  throw IoError("{} has {} bytes, but was written with {}, so it is {}", path.string(), bytes, record.bytes,
                bytes < record.bytes ? "cut short" : "too long");
}

/// Cuts the wanted runs at the borders of runs and blocks, in the order of files and bytes.
std::vector<CheckpointReader::Piece> CheckpointReader::pieces_of(std::span<const WantedRun> wanted) const {
  std::vector<Piece> pieces;
  for (const WantedRun& want : wanted) {
    if (static_cast<std::size_t>(want.kind) >= kinds_of(manifest_.content).size())
      throw IoError("{} holds weights only, so it has no {}", folder_.string(), name_of(want.kind));
    const auto& of_kind = places_[static_cast<std::size_t>(want.kind)];
    TESSERA_ASSERT(want.tensor >= 0 && want.tensor < std::ssize(of_kind), "tensor {}", want.tensor);
    const auto& places = of_kind[static_cast<std::size_t>(want.tensor)];
    auto place = std::upper_bound(places.begin(), places.end(), want.first,
                                  [](std::int64_t first, const PlacedRun& p) { return first < p.first; });
    if (place != places.begin()) --place;
    for (std::int64_t done = 0; done < want.count; ++place) {
      TESSERA_ASSERT(place != places.end(), "tensor {} has no element {}", want.tensor, want.first + done);
      const std::int64_t into = want.first + done - place->first;
      const std::int64_t count = std::min(want.count - done, place->count - into);
      const FileRecord& file = manifest_.files[place->file];
      const std::int64_t each = size_of(want.dtype);
      std::int64_t at = file.offsets[static_cast<std::size_t>(want.kind)] + (place->offset + into) * each;
      std::int64_t left = count * each;
      auto* to = static_cast<std::byte*>(want.to) + done * each;
      while (left > 0) {
        const std::int64_t block = at / file.block_bytes, first = at % file.block_bytes;
        const std::int64_t bytes = std::min(left, file.block_bytes - first);
        pieces.push_back({place->file, block, first, bytes, to});
        at += bytes, left -= bytes, to += bytes;
      }
      done += count;
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.file != b.file ? a.file < b.file : a.block != b.block ? a.block < b.block : a.first < b.first;
  });
  return pieces;
}

ReadReport CheckpointReader::read(std::span<const WantedRun> wanted, int threads, const CopyIn& to_device) const {
  const CopyIn copy = to_device ? to_device : std::memcpy;
  std::vector<WantedRun> stored(wanted.begin(), wanted.end());
  const auto others = std::ranges::stable_partition(
      stored, [&](const WantedRun& want) { return want.dtype == dtype_of(want.kind, manifest_.tensors); });
  ReadReport report = read_stored(std::span(stored.begin(), others.begin()), threads, copy);
  for (const WantedRun& want : others) report.add(read_converted(want, threads, copy));
  return report;
}

void CheckpointReader::read_tensor(StateKind kind, std::int64_t tensor, std::int64_t first,
                                   std::span<float> out) const {
  const WantedRun want{.kind = kind, .tensor = tensor, .first = first, .count = std::ssize(out), .to = out.data()};
  read({&want, 1}, 1);
}

/// Reads a run, piece by piece, whose destination has another type than the file.
ReadReport CheckpointReader::read_converted(const WantedRun& want, int threads, const CopyIn& copy) const {
  const DType stored = dtype_of(want.kind, manifest_.tensors);
  const auto most = static_cast<std::size_t>(std::min(want.count, kConverted));
  std::vector<float> read(most), converted(most);  // room for any type
  ReadReport report;
  for (std::int64_t done = 0; done < want.count; done += kConverted) {
    const std::int64_t count = std::min(kConverted, want.count - done), each = size_of(want.dtype);
    const WantedRun piece{.kind = want.kind,
                          .tensor = want.tensor,
                          .first = want.first + done,
                          .count = count,
                          .to = read.data(),
                          .dtype = stored};
    report.add(read_stored({&piece, 1}, threads, std::memcpy));
    convert(read.data(), stored, converted.data(), want.dtype, count);
    copy(static_cast<std::byte*>(want.to) + done * each, converted.data(), static_cast<std::size_t>(count * each));
  }
  return report;
}

ReadReport CheckpointReader::read_stored(std::span<const WantedRun> wanted, int threads, const CopyIn& copy) const {
  threads = std::max(threads, kLeastThreads);
  const std::vector<Piece> pieces = pieces_of(wanted);
  std::vector<std::size_t> starts;  // of the blocks in `pieces`
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i == 0 || pieces[i].file != pieces[i - 1].file || pieces[i].block != pieces[i - 1].block) starts.push_back(i);
  }
  ReadReport report;
  std::mutex mutex;  // for it
  std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(threads));
  on_threads(static_cast<std::int64_t>(starts.size()), threads, [&](std::int64_t i, int thread) {
    const std::size_t begin = starts[static_cast<std::size_t>(i)];
    const std::size_t end =
        static_cast<std::size_t>(i) + 1 < starts.size() ? starts[static_cast<std::size_t>(i) + 1] : pieces.size();
    const FileRecord& record = manifest_.files[pieces[begin].file];
    auto& buffer = buffers[static_cast<std::size_t>(thread)];
    buffer.resize(static_cast<std::size_t>(record.block_bytes));
    const auto read_in = [&](const std::filesystem::path& place) {
      const std::filesystem::path path = place / record.name;
      read_block(*files_->get(path), path, record, pieces[begin].block, buffer.data());
    };
    bool near = is_near_[pieces[begin].file];
    std::string damage;
    try {
      if (near) read_in(near_);
    } catch (const IoError& error) {
      damage = error.what();
      near = false;
    }
    if (!near) read_in(folder_);
    {
      const std::lock_guard lock(mutex);
      const std::int64_t bytes = bytes_in_block(record, pieces[begin].block);
      report.bytes += bytes;
      if (near) report.near += bytes;
      if (!damage.empty()) report.damaged_near = damage;
    }
    for (std::size_t k = begin; k < end; ++k)
      copy(pieces[k].to, buffer.data() + pieces[k].first, static_cast<std::size_t>(pieces[k].bytes));
  });
  return report;
}

}  // namespace tessera
