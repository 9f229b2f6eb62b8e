#include "tessera/kernels/observed_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// Formats "[4096, 768]"
std::string matrix(std::int64_t rows, std::int64_t columns) { return fmt::format("[{}, {}]", rows, columns); }

class ObservedKernels final : public Kernels {
 public:
  ObservedKernels(Kernels* inner, KernelObserver& observer) : inner_(inner), observer_(observer) {}

  void embedding_forward(Stream& stream, const EmbeddingForward& a) override {
    observe(other("embedding forward", matrix(a.batch * a.sequence, a.width), cost_of(a), a.output.dtype),
            [&] { inner_->embedding_forward(stream, a); });
  }

  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override {
    observe(other("embedding backward", matrix(a.batch * a.sequence, a.width), cost_of(a), a.output_gradient.dtype),
            [&] { inner_->embedding_backward(stream, a); });
  }

  void norm_forward(Stream& stream, const NormForward& a) override {
    observe(
        other("norm forward", matrix(a.tokens, a.width) + (a.residual ? ", residual" : ""), cost_of(a), a.input.dtype),
        [&] { inner_->norm_forward(stream, a); });
  }

  void norm_backward(Stream& stream, const NormBackward& a) override {
    observe(other("norm backward", matrix(a.tokens, a.width), cost_of(a), a.input.dtype),
            [&] { inner_->norm_backward(stream, a); });
  }

  void to_fp8(Stream& stream, const Fp8Arguments& a) override {
    const std::int64_t n = a.output || a.turned ? a.rows * a.columns : 0;
    double bytes = bytes_of(a.largest != nullptr ? n : 2 * n, a.input.dtype);  // twice where that is to be found
    if (a.output) bytes += bytes_of(n, a.output.dtype);
    if (a.turned) bytes += bytes_of(n, a.turned.dtype);
    observe(other("to fp8", matrix(a.rows, a.columns), {0, bytes}, a.input.dtype), [&] { inner_->to_fp8(stream, a); });
  }

  void largest_magnitude(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                         std::int64_t* largest) override {
    observe(other("largest magnitude", std::string(name_of(dtype)), moves(n, dtype), dtype),
            [&] { inner_->largest_magnitude(stream, x, dtype, n, rounded_to, largest); });
  }

  void to_codes(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                const std::int64_t* largest, void* codes) override {
    observe(other("to codes", std::string(name_of(dtype)), {0, bytes_of(n, dtype) + bytes_of(n, DType::e4m3)}, dtype),
            [&] { inner_->to_codes(stream, x, dtype, n, rounded_to, largest, codes); });
  }

  void linear_forward(Stream& stream, const LinearForward& a) override {
    observe({"linear forward",
             fmt::format("{} to {}{}{}{}", matrix(a.tokens, a.in), a.out, a.activated ? ", gelu" : "",
                         a.residual ? ", residual" : "", is_packed(a.input8) ? ", fp8" : ""),
             KernelGroup::linear,
             cost_of(a),
             a.input.dtype,
             {a.tokens, a.in, a.out},
             static_cast<bool>(a.activated),
             false,
             is_packed(a.input8)},
            [&] { inner_->linear_forward(stream, a); });
  }

  void linear_backward(Stream& stream, const LinearBackward& a) override {
    const char* half = !a.weight_gradient ? ", input" : !a.input_gradient ? ", weight" : "";
    observe({"linear backward",
             fmt::format("{} to {}{}{}{}", matrix(a.tokens, a.in), a.out, a.before_gelu ? ", gelu" : "", half,
                         is_packed(a.gradient8) ? ", fp8" : ""),
             KernelGroup::linear,
             cost_of(a),
             a.output_gradient.dtype,
             {a.tokens, a.in, a.out},
             static_cast<bool>(a.before_gelu),
             false,
             is_packed(a.gradient8)},
            [&] { inner_->linear_backward(stream, a); });
  }

  void gelu(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
            float* largest) override {
    observe(other("gelu", matrix(rows, columns), moves(2 * rows * columns, input.dtype), input.dtype),
            [&] { inner_->gelu(stream, input, output, rows, columns, largest); });
  }

  void attention_forward(Stream& stream, const AttentionForward& a) override {
    observe(attention("attention forward", a), [&] { inner_->attention_forward(stream, a); });
  }

  void attention_cached(Stream& stream, const AttentionCached& a) override {
    observe(attention("attention cached", a), [&] { inner_->attention_cached(stream, a); });
  }

  void attention_backward(Stream& stream, const AttentionBackward& a) override {
    observe(attention("attention backward", a), [&] { inner_->attention_backward(stream, a); });
  }

  void rotary(Stream& stream, const RotaryArguments& a) override {
    observe(other(a.inverse ? "rotary backward" : "rotary", matrix(a.batch * a.sequence, a.heads * a.head_width),
                  cost_of(a), a.input.dtype),
            [&] { inner_->rotary(stream, a); });
  }

  void glu_forward(Stream& stream, const GluForward& a) override {
    observe(gate("swiglu", a), [&] { inner_->glu_forward(stream, a); });
  }

  void glu_backward(Stream& stream, const GluBackward& a) override {
    observe(gate("swiglu backward", a), [&] { inner_->glu_backward(stream, a); });
  }

  void head(Stream& stream, const HeadArguments& a) override {
    observe(call_of(a), [&] { inner_->head(stream, a); });
  }

  void dropout(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
               const Dropout& dropout) override {
    observe(other("dropout", matrix(rows, columns), moves(2 * rows * columns, input.dtype), input.dtype),
            [&] { inner_->dropout(stream, input, output, rows, columns, dropout); });
  }

  void cast(Stream& stream, const void* src, DType src_dtype, void* dst, DType dst_dtype, std::int64_t n) override {
    observe(
        other("cast", fmt::format("{} to {}", name_of(src_dtype), name_of(dst_dtype)),
              {0, bytes_of(n, src_dtype) + bytes_of(n, dst_dtype)}, dst_dtype == DType::e4m3 ? src_dtype : dst_dtype),
        [&] { inner_->cast(stream, src, src_dtype, dst, dst_dtype, n); });
  }

  void add(Stream& stream, const void* a, DType a_dtype, const void* b, DType b_dtype, void* out, DType out_dtype,
           std::int64_t n) override {
    observe(other("add", fmt::format("{} + {}", name_of(a_dtype), name_of(b_dtype)),
                  {0, bytes_of(n, a_dtype) + bytes_of(n, b_dtype) + bytes_of(n, out_dtype)}, out_dtype),
            [&] { inner_->add(stream, a, a_dtype, b, b_dtype, out, out_dtype, n); });
  }

  void square_sum(Stream& stream, const void* x, DType dtype, std::int64_t n, ExactSum* sum) override {
    observe(other("square sum", std::string(name_of(dtype)), moves(n, dtype), dtype),
            [&] { inner_->square_sum(stream, x, dtype, n, sum); });
  }

  void checksum(Stream& stream, const void* data, std::int64_t words, std::int64_t first, std::uint64_t* sum) override {
    observe(other("checksum", "words", moves(words, DType::fp32), DType::fp32),
            [&] { inner_->checksum(stream, data, words, first, sum); });
  }

  void adamw(Stream& stream, const UpdateArguments& a) override {
    const std::string copy = a.copy != nullptr ? fmt::format(", {} copy", name_of(a.copy_dtype)) : "";
    observe(
        other("adamw", fmt::format("{} gradients{}", name_of(a.gradient_dtype), copy), cost_of(a), a.gradient_dtype),
        [&] { inner_->adamw(stream, a); });
  }

  void muon_direction(Stream& stream, const DirectionArguments& a) override {
    observe(other("muon direction", std::string(name_of(a.gradient_dtype)), cost_of(a), a.gradient_dtype),
            [&] { inner_->muon_direction(stream, a); });
  }

  void muon(Stream& stream, const UpdateArguments& a) override {
    observe(other("muon", fmt::format("{} gradients", name_of(a.gradient_dtype)), cost_of(a), a.gradient_dtype),
            [&] { inner_->muon(stream, a); });
  }

  void orthogonalize(Stream& stream, const OrthogonalizeArguments& a) override {
    if (!a.input) return pass_on([&] { inner_->orthogonalize(stream, a); });  // another rank's
    observe({"orthogonalize",
             matrix(a.rows, a.columns),
             KernelGroup::other,
             cost_of(a),
             DType::fp32,
             {a.rows, a.columns, 0}},
            [&] { inner_->orthogonalize(stream, a); });
  }

  // A few hundred operations on numbers, and zeros in padding: too short to measure.
  void fill_zero(Stream& stream, void* data, std::int64_t bytes) override {
    pass_on([&] { inner_->fill_zero(stream, data, bytes); });
  }
  void accumulate_loss(Stream& stream, const AccountArguments& a) override {
    pass_on([&] { inner_->accumulate_loss(stream, a); });
  }
  void clip(Stream& stream, const ClipArguments& a) override {
    pass_on([&] { inner_->clip(stream, a); });
  }

  std::string description() const override { return inner_ != nullptr ? inner_->description() : "observed"; }

 private:
  /// Returns the call of a kernel without matmuls.
  static KernelCall other(const char* name, std::string shape, const KernelCost& cost, DType dtype) {
    return {name, std::move(shape), KernelGroup::other, cost, dtype, {}};
  }
  template <class Arguments>
  static KernelCall gate(const char* name, const Arguments& a) {
    const char* const gelu = a.activation == GateActivation::gelu ? ", gelu" : "";
    return other(name, matrix(a.tokens, a.width) + gelu, cost_of(a), a.gate.dtype);
  }
  static bool is_packed(const Fp8Operand& operand) { return operand && size_of(operand.view.dtype) == 1; }
  static KernelCost moves(std::int64_t elements, DType dtype) { return {0, bytes_of(elements, dtype)}; }
  static KernelCall call_of(const HeadArguments& a) {
    return {a.training() ? "head, all" : "head loss",
            fmt::format("{} to {}", matrix(a.tokens, a.width), a.vocab),
            KernelGroup::head,
            cost_of(a),
            a.input.dtype,
            {a.tokens, a.width, a.vocab}};
  }

  template <class Arguments>
  static KernelCall attention(const char* name, const Arguments& a) {
    const AttentionShape& s = a.shape;
    // What its cache holds is not in the shape, so a call of generation goes by its rows.
    const bool has_window = !std::is_same_v<Arguments, AttentionCached> && s.has_window();
    std::string more = has_window ? fmt::format(", {} seen", s.window) : "";
    if (s.documents > 0) more += fmt::format(", {} documents", s.documents);
    // A window costs what as many tokens in sequences of twice its length do, whose queries see as many keys.
    const std::int64_t length = has_window ? std::min(s.sequence, 2 * s.window) : std::max<std::int64_t>(1, s.sequence);
    KernelCall call;
    call.name = name, call.group = KernelGroup::attention;
    call.shape = fmt::format("{} x {} heads of {}, {} tokens{}", s.batch, s.heads, s.head_width, s.sequence, more);
    call.cost = cost_of(a), call.dtype = a.query.dtype, call.has_window = has_window;
    call.sizes = {ceil_div(s.batch * s.heads * s.sequence, length), length, s.head_width};
    return call;
  }

  template <class F>
  void pass_on(F&& run) {
    if (inner_ != nullptr) run();
  }
  void observe(const KernelCall& call, const std::function<void()>& run) { observer_.call(call, run); }

  Kernels* inner_;
  KernelObserver& observer_;
};

}  // namespace

std::unique_ptr<Kernels> make_observed_kernels(Kernels* inner, KernelObserver& observer) {
  return std::make_unique<ObservedKernels>(inner, observer);
}

}  // namespace tessera
