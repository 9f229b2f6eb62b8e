#include "bench/kernel_cost.hpp"
#include "bench/kernel_times.hpp"
#include "tessera/base/format.hpp"

namespace tessera {

namespace {

/// Formats "[4096, 768]"
std::string matrix(std::int64_t rows, std::int64_t columns) { return fmt::format("[{}, {}]", rows, columns); }

std::string text_of(const AttentionShape& s) {
  return fmt::format("{} x {} heads of {}, {} tokens", s.batch, s.heads, s.head_width, s.sequence);
}

class TimedKernels final : public Kernels {
 public:
  TimedKernels(Kernels& inner, KernelTimes& times, StreamClock& clock) : inner_(inner), times_(times), clock_(clock) {}

  void embedding_forward(Stream& stream, const EmbeddingForward& a) override {
    time({"embedding forward", matrix(a.batch * a.sequence, a.width), KernelGroup::other, cost_of(a)},
         [&] { inner_.embedding_forward(stream, a); });
  }

  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override {
    time({"embedding backward", matrix(a.batch * a.sequence, a.width), KernelGroup::other, cost_of(a)},
         [&] { inner_.embedding_backward(stream, a); });
  }

  void norm_forward(Stream& stream, const NormForward& a) override {
    time({"norm forward", matrix(a.tokens, a.width), KernelGroup::other, cost_of(a)},
         [&] { inner_.norm_forward(stream, a); });
  }

  void norm_backward(Stream& stream, const NormBackward& a) override {
    time({"norm backward", matrix(a.tokens, a.width), KernelGroup::other, cost_of(a)},
         [&] { inner_.norm_backward(stream, a); });
  }

  void linear_forward(Stream& stream, const LinearForward& a) override {
    time({"linear forward",
          fmt::format("{} to {}{}{}", matrix(a.tokens, a.in), a.out, a.activated ? ", gelu" : "",
                      a.residual ? ", residual" : ""),
          KernelGroup::linear, cost_of(a)},
         [&] { inner_.linear_forward(stream, a); });
  }

  void linear_backward(Stream& stream, const LinearBackward& a) override {
    const char* half = !a.weight_gradient ? ", input" : !a.input_gradient ? ", weight" : "";
    time({"linear backward",
          fmt::format("{} to {}{}{}", matrix(a.tokens, a.in), a.out, a.before_gelu ? ", gelu" : "", half),
          KernelGroup::linear, cost_of(a)},
         [&] { inner_.linear_backward(stream, a); });
  }

  void gelu(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns) override {
    time({"gelu", matrix(rows, columns), KernelGroup::other, moves(2 * rows * columns, input.dtype)},
         [&] { inner_.gelu(stream, input, output, rows, columns); });
  }

  void attention_forward(Stream& stream, const AttentionForward& a) override {
    time({"attention forward", text_of(a.shape), KernelGroup::attention, cost_of(a)},
         [&] { inner_.attention_forward(stream, a); });
  }

  void attention_cached(Stream& stream, const AttentionCached& a) override {
    time({"attention cached", text_of(a.shape), KernelGroup::attention, cost_of(a)},
         [&] { inner_.attention_cached(stream, a); });
  }

  void attention_backward(Stream& stream, const AttentionBackward& a) override {
    time({"attention backward", text_of(a.shape), KernelGroup::attention, cost_of(a)},
         [&] { inner_.attention_backward(stream, a); });
  }

  void rotary(Stream& stream, const RotaryArguments& a) override {
    time({a.inverse ? "rotary backward" : "rotary", matrix(a.batch * a.sequence, a.heads * a.head_width),
          KernelGroup::other, cost_of(a)},
         [&] { inner_.rotary(stream, a); });
  }

  void swiglu_forward(Stream& stream, const SwigluForward& a) override {
    time({"swiglu", matrix(a.tokens, a.width), KernelGroup::other, cost_of(a)},
         [&] { inner_.swiglu_forward(stream, a); });
  }

  void swiglu_backward(Stream& stream, const SwigluBackward& a) override {
    time({"swiglu backward", matrix(a.tokens, a.width), KernelGroup::other, cost_of(a)},
         [&] { inner_.swiglu_backward(stream, a); });
  }

  void head(Stream& stream, const HeadArguments& a) override {
    time(call_of(a), [&] { inner_.head(stream, a); });
  }

  void dropout(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
               const Dropout& dropout) override {
    time({"dropout", matrix(rows, columns), KernelGroup::other, moves(2 * rows * columns, input.dtype)},
         [&] { inner_.dropout(stream, input, output, rows, columns, dropout); });
  }

  void cast(Stream& stream, const void* src, DType src_dtype, void* dst, DType dst_dtype, std::int64_t n) override {
    time({"cast",
          fmt::format("{} to {}", name_of(src_dtype), name_of(dst_dtype)),
          KernelGroup::other,
          {0, bytes_of(n, src_dtype) + bytes_of(n, dst_dtype)}},
         [&] { inner_.cast(stream, src, src_dtype, dst, dst_dtype, n); });
  }

  void add(Stream& stream, const void* a, DType a_dtype, const void* b, DType b_dtype, void* out, DType out_dtype,
           std::int64_t n) override {
    time({"add",
          fmt::format("{} + {}", name_of(a_dtype), name_of(b_dtype)),
          KernelGroup::other,
          {0, bytes_of(n, a_dtype) + bytes_of(n, b_dtype) + bytes_of(n, out_dtype)}},
         [&] { inner_.add(stream, a, a_dtype, b, b_dtype, out, out_dtype, n); });
  }

  void square_sum(Stream& stream, const void* x, DType dtype, std::int64_t n, ExactSum* sum) override {
    time({"square sum", std::string(name_of(dtype)), KernelGroup::other, moves(n, dtype)},
         [&] { inner_.square_sum(stream, x, dtype, n, sum); });
  }

  void adamw(Stream& stream, const UpdateArguments& a) override {
    const std::string copy = a.copy != nullptr ? fmt::format(", {} copy", name_of(a.copy_dtype)) : "";
    time({"adamw", fmt::format("{} gradients{}", name_of(a.gradient_dtype), copy), KernelGroup::other, cost_of(a)},
         [&] { inner_.adamw(stream, a); });
  }

  void muon_direction(Stream& stream, const DirectionArguments& a) override {
    time({"muon direction", std::string(name_of(a.gradient_dtype)), KernelGroup::other, cost_of(a)},
         [&] { inner_.muon_direction(stream, a); });
  }

  void muon(Stream& stream, const UpdateArguments& a) override {
    time({"muon", fmt::format("{} gradients", name_of(a.gradient_dtype)), KernelGroup::other, cost_of(a)},
         [&] { inner_.muon(stream, a); });
  }

  void orthogonalize(Stream& stream, const OrthogonalizeArguments& a) override {
    if (!a.input) return inner_.orthogonalize(stream, a);  // another rank's
    time({"orthogonalize", matrix(a.rows, a.columns), KernelGroup::other, cost_of(a)},
         [&] { inner_.orthogonalize(stream, a); });
  }

  // A few hundred operations on numbers, and zeros in padding: too short to measure.
  void fill_zero(Stream& stream, void* data, std::int64_t bytes) override { inner_.fill_zero(stream, data, bytes); }
  void accumulate_loss(Stream& stream, const AccountArguments& a) override { inner_.accumulate_loss(stream, a); }
  void clip(Stream& stream, const ClipArguments& a) override { inner_.clip(stream, a); }

  std::string description() const override { return inner_.description(); }

 private:
  static KernelCost moves(std::int64_t elements, DType dtype) { return {0, bytes_of(elements, dtype)}; }
  static KernelCall call_of(const HeadArguments& a) {
    return {a.training() ? "head, all" : "head loss", fmt::format("{} to {}", matrix(a.tokens, a.width), a.vocab),
            KernelGroup::head, cost_of(a)};
  }

  template <class F>
  void time(const KernelCall& call, F&& run) {
    clock_.time(run);
    times_.add(call);
  }

  Kernels& inner_;
  KernelTimes& times_;
  StreamClock& clock_;
};

}  // namespace

std::unique_ptr<Kernels> make_timed_kernels(Kernels& inner, KernelTimes& times, StreamClock& clock) {
  return std::make_unique<TimedKernels>(inner, times, clock);
}

}  // namespace tessera
