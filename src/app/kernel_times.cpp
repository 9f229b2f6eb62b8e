#include "app/kernel_times.hpp"

#include <algorithm>
#include <chrono>

#include "app/median.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

void KernelTimes::add(const KernelCall& call, double seconds) {
  auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.sum.name == call.name && entry.sum.shape == call.shape;
  });
  if (it == entries_.end()) {
    it = entries_.insert(it, Entry{});
    it->sum.name = call.name, it->sum.shape = call.shape, it->sum.group = call.group;
  }
  it->sum.calls += count_;
  it->sum.flops += count_ * call.flops;
  it->sum.bytes += count_ * call.bytes;
  it->seconds.resize(repetitions_);
  it->seconds.back() += count_ * seconds;
}

std::vector<KernelRow> KernelTimes::rows() const {
  TESSERA_ASSERT(repetitions_ > 0, "no repetition was measured");
  const auto repetitions = static_cast<double>(repetitions_);
  std::vector<KernelRow> rows;
  for (const Entry& entry : entries_) {
    KernelRow& row = rows.emplace_back(entry.sum);
    row.calls /= repetitions, row.flops /= repetitions, row.bytes /= repetitions;
    row.seconds = median(entry.seconds);
  }
  return rows;
}

namespace {

/// "[4096, 768]"
std::string matrix(std::int64_t rows, std::int64_t columns) { return fmt::format("[{}, {}]", rows, columns); }

std::string text_of(const AttentionShape& s) {
  return fmt::format("{} x {} heads of {}, {} tokens", s.batch, s.heads, s.head_width, s.sequence);
}

/// FLOPs of one product of queries and keys (or weights and values), its visible half.
double attention_product(const AttentionShape& s) {
  return static_cast<double>(s.batch * s.sequence) * static_cast<double>(s.sequence + 1) *
         static_cast<double>(s.heads * s.head_width);
}

double product(std::int64_t a, std::int64_t b, std::int64_t c) {
  return 2.0 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// Bytes of `count` elements.
double bytes_of(std::int64_t count, DType dtype) {
  return static_cast<double>(count) * static_cast<double>(size_of(dtype));
}

class TimedKernels final : public Kernels {
 public:
  TimedKernels(Kernels& inner, KernelTimes& times) : inner_(inner), times_(times) {}

  void embedding_forward(Stream& stream, const EmbeddingForward& a) override {
    const std::int64_t n = a.batch * a.sequence * a.width;
    time({"embedding forward", matrix(a.batch * a.sequence, a.width), KernelGroup::other, 0,
          bytes_of((a.position_table ? 3 : 2) * n, a.output.dtype)},
         [&] { inner_.embedding_forward(stream, a); });
  }

  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override {
    double bytes = bytes_of(a.batch * a.sequence * a.width, a.output_gradient.dtype);
    if (!a.token_gradient.adds) bytes += bytes_of(a.vocab * a.width, a.token_gradient.view.dtype);
    if (a.position_gradient) bytes += bytes_of(a.context * a.width, a.position_gradient.view.dtype);
    time({"embedding backward", matrix(a.batch * a.sequence, a.width), KernelGroup::other, 0, bytes},
         [&] { inner_.embedding_backward(stream, a); });
  }

  void norm_forward(Stream& stream, const NormForward& a) override {
    time({a.given_statistics ? "norm again" : "norm forward", matrix(a.tokens, a.width), KernelGroup::other, 0,
          bytes_of((a.output ? 2 : 1) * a.tokens * a.width, a.input.dtype)},
         [&] { inner_.norm_forward(stream, a); });
  }

  void norm_backward(Stream& stream, const NormBackward& a) override {
    time({"norm backward", matrix(a.tokens, a.width), KernelGroup::other, 0,
          bytes_of((a.input_adds ? 4 : 3) * a.tokens * a.width, a.input.dtype)},
         [&] { inner_.norm_backward(stream, a); });
  }

  void linear_forward(Stream& stream, const LinearForward& a) override {
    time({"linear forward",
          fmt::format("{} to {}{}{}", matrix(a.tokens, a.in), a.out, a.activated ? ", gelu" : "",
                      a.residual ? ", residual" : ""),
          KernelGroup::linear, product(a.tokens, a.in, a.out), 0},
         [&] { inner_.linear_forward(stream, a); });
  }

  void linear_backward(Stream& stream, const LinearBackward& a) override {
    const int products = (a.input_gradient ? 1 : 0) + (a.weight_gradient ? 1 : 0);
    time({"linear backward", fmt::format("{} to {}{}", matrix(a.tokens, a.in), a.out, a.before_gelu ? ", gelu" : ""),
          KernelGroup::linear, products * product(a.tokens, a.in, a.out), 0},
         [&] { inner_.linear_backward(stream, a); });
  }

  void gelu(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns) override {
    time({"gelu", matrix(rows, columns), KernelGroup::other, 0, bytes_of(2 * rows * columns, input.dtype)},
         [&] { inner_.gelu(stream, input, output, rows, columns); });
  }

  void attention_forward(Stream& stream, const AttentionForward& a) override {
    time({"attention forward", text_of(a.shape), KernelGroup::attention, 2 * attention_product(a.shape), 0},
         [&] { inner_.attention_forward(stream, a); });
  }

  void attention_backward(Stream& stream, const AttentionBackward& a) override {
    time({"attention backward", text_of(a.shape), KernelGroup::attention, 5 * attention_product(a.shape), 0},
         [&] { inner_.attention_backward(stream, a); });
  }

  void rotary(Stream& stream, const RotaryArguments& a) override {
    time({a.inverse ? "rotary backward" : "rotary", matrix(a.batch * a.sequence, a.heads * a.head_width),
          KernelGroup::other, 0, bytes_of(2 * a.batch * a.sequence * a.heads * a.head_width, a.input.dtype)},
         [&] { inner_.rotary(stream, a); });
  }

  void swiglu_forward(Stream& stream, const SwigluForward& a) override {
    time({"swiglu", matrix(a.tokens, a.width), KernelGroup::other, 0, bytes_of(3 * a.tokens * a.width, a.gate.dtype)},
         [&] { inner_.swiglu_forward(stream, a); });
  }

  void swiglu_backward(Stream& stream, const SwigluBackward& a) override {
    time({"swiglu backward", matrix(a.tokens, a.width), KernelGroup::other, 0,
          bytes_of(5 * a.tokens * a.width, a.gate.dtype)},
         [&] { inner_.swiglu_backward(stream, a); });
  }

  void head_loss(Stream& stream, const HeadArguments& a) override {
    time(head(a, "head loss", 1), [&] { inner_.head_loss(stream, a); });
  }

  void head_training(Stream& stream, const HeadArguments& a) override {
    time(head(a, "head, all", 3), [&] { inner_.head_training(stream, a); });
  }

  void dropout(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
               const Dropout& dropout) override {
    time({"dropout", matrix(rows, columns), KernelGroup::other, 0, bytes_of(2 * rows * columns, input.dtype)},
         [&] { inner_.dropout(stream, input, output, rows, columns, dropout); });
  }

  void cast(Stream& stream, const void* src, DType src_dtype, void* dst, DType dst_dtype, std::int64_t n) override {
    time({"cast", fmt::format("{} to {}", name_of(src_dtype), name_of(dst_dtype)), KernelGroup::other, 0,
          bytes_of(n, src_dtype) + bytes_of(n, dst_dtype)},
         [&] { inner_.cast(stream, src, src_dtype, dst, dst_dtype, n); });
  }

  void fill_zero(Stream& stream, void* data, std::int64_t bytes) override {
    time({"fill with zeros", "", KernelGroup::other, 0, static_cast<double>(bytes)},
         [&] { inner_.fill_zero(stream, data, bytes); });
  }

  void add(Stream& stream, const void* a, DType a_dtype, const void* b, DType b_dtype, void* out, DType out_dtype,
           std::int64_t n) override {
    time({"add", fmt::format("{} + {}", name_of(a_dtype), name_of(b_dtype)), KernelGroup::other, 0,
          bytes_of(n, a_dtype) + bytes_of(n, b_dtype) + bytes_of(n, out_dtype)},
         [&] { inner_.add(stream, a, a_dtype, b, b_dtype, out, out_dtype, n); });
  }

  void square_sum(Stream& stream, const void* x, DType dtype, std::int64_t n, ExactSum* sum) override {
    time({"square sum", std::string(name_of(dtype)), KernelGroup::other, 0, bytes_of(n, dtype)},
         [&] { inner_.square_sum(stream, x, dtype, n, sum); });
  }

  void adamw(Stream& stream, const AdamWArguments& a) override {
    const double bytes = bytes_of(6 * a.elements, DType::fp32) + bytes_of(a.elements, a.gradient_dtype);
    time({"adamw", fmt::format("{} gradients", name_of(a.gradient_dtype)), KernelGroup::other, 0, bytes},
         [&] { inner_.adamw(stream, a); });
  }

  // A few hundred operations on numbers: nothing to measure.
  void account_loss(Stream& stream, const AccountArguments& a) override { inner_.account_loss(stream, a); }
  void clip(Stream& stream, const ClipArguments& a) override { inner_.clip(stream, a); }

  std::string description() const override { return inner_.description(); }

 private:
  static KernelCall head(const HeadArguments& a, const char* name, int products) {
    return {name, fmt::format("{} to {}", matrix(a.tokens, a.width), a.vocab), KernelGroup::head,
            products * product(a.tokens, a.width, a.vocab), 0};
  }

  template <class F>
  void time(const KernelCall& call, F&& run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    times_.add(call, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  Kernels& inner_;
  KernelTimes& times_;
};

}  // namespace

std::unique_ptr<Kernels> make_timed_kernels(Kernels& inner, KernelTimes& times) {
  return std::make_unique<TimedKernels>(inner, times);
}

}  // namespace tessera
