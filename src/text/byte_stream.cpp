#include "text/byte_stream.hpp"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;

class PlainBytes final : public ByteStream {
 public:
  explicit PlainBytes(const SourceFile& file) : file_(file), open_(open_file(file.path, OpenFor::reading)) {
    require_unchanged(file_);
  }
  std::size_t read(char* out, std::size_t bytes) override {
    const auto got = static_cast<std::int64_t>(read_some(out, bytes));
    taken_ += got;
    if (got == 0 || taken_ > file_.state.size) require_unchanged(file_);
    return static_cast<std::size_t>(got);
  }
  std::int64_t taken() const override { return taken_; }

 private:
  std::size_t read_some(char* out, std::size_t bytes) const {
    for (;;) {
      const auto got = ::read(open_.get(), out, bytes);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) fail_to_read("read", file_.path);
    }
  }
  SourceFile file_;
  FileDescriptor open_;
  std::int64_t taken_ = 0;
};

/// Input that a decompressor takes from a file, block by block.
class BlockInput {
 public:
  explicit BlockInput(const SourceFile& file) : name_(file.path.string()), bytes_(file), block_(kBlock) {}
  /// Refills the block when all of it was used; false at the file's end.
  bool refill() {
    if (used < size) return true;
    used = 0;
    size = bytes_.read(block_.data(), block_.size());
    return size > 0;
  }
  char* data() { return block_.data(); }
  std::int64_t taken() const { return bytes_.taken(); }
  const std::string& name() const { return name_; }
  [[noreturn]] void damaged(const char* format, const std::string& why) const {
    throw refusal("{} is not a {} file, or a damaged one: {}", name_, format, why).hint("Compress it again");
  }
  [[noreturn]] void truncated(const char* format) const {
    throw refusal("{} is truncated", name_)
        .because("its {} data ends in the middle", format)
        .hint("Copy the file again");
  }
  std::size_t used = 0, size = 0;

 private:
  std::string name_;
  PlainBytes bytes_;
  std::vector<char> block_;
};

/// gzip, of one member or several. As by gzip itself, zeros after the last one are padding, and anything else there is
/// left out with a note.
class GzipBytes final : public ByteStream {
 public:
  explicit GzipBytes(const SourceFile& file) : input_(file) {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (::inflateInit2(&state_, gzip_only) != Z_OK) throw IoError("{}: zlib cannot start", file.path.string());
  }
  ~GzipBytes() override { ::inflateEnd(&state_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::size_t read(char* out, std::size_t bytes) override {
    const auto most = static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = most;
    while (state_.avail_out == most) {
      if (!input_.refill()) {
        if (inside_ && input_.taken() > 0) input_.truncated("gzip");
        return 0;
      }
      if (!inside_ && !begin_member()) continue;
      step();
    }
    return most - state_.avail_out;
  }
  std::int64_t taken() const override { return input_.taken(); }
  std::string note() const override {
    return left_out_ == 0 ? "" : counted(left_out_, "byte") + " after the end of its gzip data are left out";
  }

 private:
  /// Returns whether another member begins, perhaps after zeros. Anything else is left out.
  bool begin_member() {
    char* const begin = input_.data() + input_.used;
    char* const end = input_.data() + input_.size;
    char* const next = left_out_ > 0 ? begin : std::find_if(begin, end, [](char c) { return c != '\0'; });
    input_.used += static_cast<std::size_t>(next - begin);
    if (next == end) return false;
    if (left_out_ == 0 && *next == '\x1f') {
      ::inflateReset(&state_);
      return inside_ = true;
    }
    left_out_ += end - next;
    input_.used = input_.size;
    return false;
  }
  void step() {
    state_.next_in = reinterpret_cast<Bytef*>(input_.data() + input_.used);
    state_.avail_in = static_cast<uInt>(input_.size - input_.used);
    const int code = ::inflate(&state_, Z_NO_FLUSH);
    input_.used = input_.size - state_.avail_in;
    if (code == Z_STREAM_END) {
      inside_ = false;  // another member may follow
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      input_.damaged("gzip", state_.msg != nullptr ? state_.msg : "unknown data");
    }
  }
  BlockInput input_;
  z_stream state_{};
  bool inside_ = true;  ///< a member has begun and not ended
  std::int64_t left_out_ = 0;
};

struct FreeZstd {
  void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
};

/// zstd, of one frame or several.
class ZstdBytes final : public ByteStream {
 public:
  explicit ZstdBytes(const SourceFile& file) : input_(file), state_(::ZSTD_createDStream()) {
    if (state_ == nullptr) throw IoError("{}: zstd cannot start", file.path.string());
    // Dumps of the web are written with `zstd --long=31`: a window of 2 GiB, which is allocated where a frame has one.
    ::ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax,
                             ::ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
  }
  std::size_t read(char* out, std::size_t bytes) override {
    ZSTD_outBuffer to{out, bytes, 0};
    while (to.pos == 0) {
      const bool has_input = input_.refill();
      if (!has_input && !inside_) return 0;
      ZSTD_inBuffer from{input_.data(), input_.size, input_.used};
      const std::size_t left = ::ZSTD_decompressStream(state_.get(), &to, &from);
      if (::ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
        throw IoError("{}: there is not enough memory for the window of its zstd data, up to 2 GiB", input_.name());
      if (::ZSTD_isError(left) != 0) input_.damaged("zstd", ::ZSTD_getErrorName(left));
      input_.used = from.pos;
      inside_ = left != 0;
      if (!has_input && to.pos == 0) input_.truncated("zstd");
    }
    return to.pos;
  }
  std::int64_t taken() const override { return input_.taken(); }

 private:
  BlockInput input_;
  std::unique_ptr<ZSTD_DStream, FreeZstd> state_;
  bool inside_ = false;  ///< a frame has begun, and has more input or output to come
};

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const SourceFile& file) {
  switch (file.compression) {
    case Compression::gzip:
      return std::make_unique<GzipBytes>(file);
    case Compression::zstd:
      return std::make_unique<ZstdBytes>(file);
    case Compression::none:
      return std::make_unique<PlainBytes>(file);
  }
  throw InternalError("no such compression");
}

}  // namespace tessera
