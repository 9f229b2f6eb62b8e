// Attention over a cache: piece by piece it gives what attention over the whole sequence gives.
#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// A batch whose sequences come in pieces of `rows` rows at most, to a cache of `limit` slots for each (0: one for each
/// position).
class SequencePieces {
 public:
  SequencePieces(const AttentionShape& whole, DType dtype, std::int64_t limit = 0)
      : whole_(whole),
        limit_(limit > 0 ? limit : whole.sequence),
        qkv_(Tensor::random(whole.batch * whole.sequence, width(), dtype, 3)),
        keys_(whole.batch * limit_, kv(), dtype),
        values_(whole.batch * limit_, kv(), dtype),
        cached_(whole.batch * whole.sequence, out(), dtype),
        expected_(whole.batch * whole.sequence, out(), dtype),
        done_(static_cast<std::size_t>(whole.batch), 0) {}

  std::int64_t out() const { return whole_.heads * whole_.head_width; }
  std::int64_t kv() const { return whole_.kv_heads * whole_.head_width; }
  std::int64_t width() const { return out() + 2 * kv(); }
  std::int64_t done(std::int64_t b) const { return done_[static_cast<std::size_t>(b)]; }

  void compute_whole(Device& device) {
    Tensor log_sum_exp(whole_.batch * whole_.heads, whole_.sequence, DType::fp32);
    AttentionForward f;
    f.shape = whole_;
    f.query = qkv_.view(), f.key = qkv_.view().columns_from(out()), f.value = qkv_.view().columns_from(out() + kv());
    f.output = expected_.view(), f.log_sum_exp = log_sum_exp.floats();
    device.run(f);
  }

  /// Takes counts[b] more tokens of each sequence.
  void add(Device& device, std::int64_t rows, const std::vector<std::int64_t>& counts) {
    const std::int64_t batch = whole_.batch;
    const DType dtype = qkv_.view().dtype;
    const std::int64_t size = size_of(dtype);
    Tensor piece(batch * rows, width(), dtype), output(batch * rows, out(), dtype);
    Guarded positions(batch * rows * 4), taken(batch * 4);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t count = counts[static_cast<std::size_t>(b)];
      taken.as<std::int32_t>()[b] = static_cast<std::int32_t>(count);
      for (std::int64_t i = 0; i < rows; ++i)
        positions.as<std::int32_t>()[b * rows + i] = static_cast<std::int32_t>(i < count ? done(b) + i : 0);
      // Rows without a token keep NaN.
      if (count > 0)
        std::memcpy(piece.view().at(b * rows), qkv_.view().at(b * whole_.sequence + done(b)),
                    static_cast<std::size_t>(count * width() * size));
    }
    AttentionCached a;
    a.shape = whole_, a.shape.sequence = rows;
    a.limit = limit_;
    a.positions = positions.as<std::int32_t>(), a.counts = taken.as<std::int32_t>();
    a.query = piece.view(), a.key = piece.view().columns_from(out()), a.value = piece.view().columns_from(out() + kv());
    a.key_cache = keys_.view(), a.value_cache = values_.view();
    a.output = output.view();
    device.run(a);
    CHECK((output.intact() && keys_.intact() && values_.intact()));
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t count = counts[static_cast<std::size_t>(b)];
      if (count > 0)
        std::memcpy(cached_.view().at(b * whole_.sequence + done(b)), output.view().at(b * rows),
                    static_cast<std::size_t>(count * out() * size));
      for (std::int64_t i = count; i < rows; ++i) {
        for (const double x : to_doubles(output.view().at(b * rows + i), dtype, out())) CHECK(x == 0);
      }
      done_[static_cast<std::size_t>(b)] += count;
    }
  }

  double error() const { return relative_error(cached_.values(), expected_.values()); }
  bool same_outputs(const SequencePieces& other) const { return cached_.same_bits(other.cached_); }
  /// Returns whether positions [first, end) of a sequence have the bits of attention without a cache.
  bool same_bits(std::int64_t b, std::int64_t first, std::int64_t end) const {
    return std::memcmp(cached_.view().at(b * whole_.sequence + first), expected_.view().at(b * whole_.sequence + first),
                       static_cast<std::size_t>((end - first) * out() * size_of(cached_.view().dtype))) == 0;
  }

 private:
  AttentionShape whole_;
  std::int64_t limit_;
  Tensor qkv_, keys_, values_, cached_, expected_;
  std::vector<std::int64_t> done_;
};

bool on_cpu() { return tested_kind() == DeviceKind::cpu; }

/// A GPU has kernels for heads of up to 64, 128 and 256.
std::vector<AttentionShape> shapes() {
  if (on_cpu()) return {{3, 150, 4, 2, 16}, {2, 70, 1, 1, 5}, {2, 150, 2, 1, 16, 67}};
  return {{3, 80, 4, 2, 16}, {2, 66, 1, 1, 5}, {2, 34, 2, 1, 72}, {1, 34, 1, 1, 200}, {2, 80, 2, 1, 16, 37}};
}

}  // namespace

TEST_CASE("attention cached: pieces of several lengths give what the whole sequence gives", "[attention]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const AttentionShape& shape : shapes()) {
      INFO(name_of(dtype) << " " << shape.sequence);
      SequencePieces pieces(shape, dtype);
      pieces.compute_whole(device);
      // The first sequence in the tiles of attention; others begin with odd numbers, or with nothing, and lag behind.
      const auto take = [&](std::int64_t rows, const std::vector<std::int64_t>& wanted) {
        std::vector<std::int64_t> counts;
        for (std::int64_t b = 0; b < shape.batch; ++b)
          counts.push_back(std::min(wanted[static_cast<std::size_t>(b)], shape.sequence - pieces.done(b)));
        pieces.add(device, rows, counts);
      };
      take(64, {64, 7, 0});
      take(64, {64, 63, 1});
      take(64, {64, 0, 64});
      if (on_cpu()) CHECK(pieces.same_bits(0, 0, shape.sequence));
      for (std::int64_t i = 0; i < shape.sequence; ++i) take(1, {1, 1, 1});
      for (std::int64_t b = 0; b < shape.batch; ++b) REQUIRE(pieces.done(b) == shape.sequence);
      CHECK(pieces.error() < tolerance(dtype));
    }
  }
}

TEST_CASE("attention cached: the same bits on any number of threads", "[attention]") {
  std::vector<std::unique_ptr<SequencePieces>> runs;
  for (const int threads : {1, 3}) {
    Device device(threads);
    SequencePieces& pieces =
        *runs.emplace_back(std::make_unique<SequencePieces>(AttentionShape{2, 90, 3, 1, 8}, DType::fp32));
    pieces.compute_whole(device);
    pieces.add(device, 40, {40, 11});
    pieces.add(device, 40, {40, 40});
    for (int i = 0; i < 5; ++i) pieces.add(device, 1, {1, 1});
  }
  CHECK(runs[0]->error() == runs[1]->error());
}

TEST_CASE("attention cached: more tokens than the cache has positions are refused", "[attention]") {
  if (!on_cpu()) return;  // a GPU's kernel cannot throw
  Device device;
  SequencePieces pieces({1, 3, 1, 1, 8}, DType::fp32);
  pieces.add(device, 2, {2});
  CHECK_THROWS_AS(pieces.add(device, 2, {2}), InternalError);
  SequencePieces narrow({1, 6, 1, 1, 8, 4}, DType::fp32, 4);  // 4 + 2 - 1 slots hold a window of 4 with calls of 2 rows
  for (int i = 0; i < 2; ++i) narrow.add(device, 2, {2});
  CHECK_THROWS_AS(narrow.add(device, 2, {2}), InternalError);
}

TEST_CASE("attention cached: a ring of slots that holds the window gives the bits of the whole cache", "[attention]") {
  Device device;
  std::mt19937 drawn(3);
  const auto up_to = [&](std::int64_t most) { return 1 + static_cast<std::int64_t>(drawn()) % most; };
  for (const DType dtype : kFloatTypes) {
    for (int i = 0; i < (on_cpu() ? 8 : 2); ++i) {
      const std::int64_t rows = up_to(on_cpu() ? 70 : 20), window = up_to(on_cpu() ? 70 : 30);
      INFO(name_of(dtype) << ", calls of " << rows << " rows, a window of " << window);
      const AttentionShape shape{2, on_cpu() ? 200 : 80, 2, 1, up_to(20), window};
      SequencePieces whole(shape, dtype), ring(shape, dtype, window + rows - 1);
      while (whole.done(0) < shape.sequence || whole.done(1) < shape.sequence) {
        std::vector<std::int64_t> counts;
        for (std::int64_t b = 0; b < shape.batch; ++b)
          counts.push_back(std::min(up_to(rows + 1) - 1, shape.sequence - whole.done(b)));
        whole.add(device, rows, counts), ring.add(device, rows, counts);
      }
      CHECK(ring.same_outputs(whole));
    }
  }
}

TEST_CASE("attention cached: on a GPU a query's bits do not depend on the other rows of the call", "[attention]") {
  if (on_cpu()) return;  // there a whole tile of 64 has those of attention, other cuts round otherwise
  const AttentionShape shape{2, 45, 3, 1, 24};
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    std::vector<std::unique_ptr<SequencePieces>> runs;
    for (const std::int64_t rows : {45, 7, 1}) {
      Device device;
      SequencePieces& pieces = *runs.emplace_back(std::make_unique<SequencePieces>(shape, dtype));
      for (std::int64_t done = 0; done < 45; done += rows) {
        const std::int64_t count = std::min(rows, 45 - done);
        pieces.add(device, rows, {count, count});
      }
      CHECK(pieces.same_outputs(*runs.front()));
    }
  }
}
