#include "bench/kernel_ladder.hpp"

#include <algorithm>

#include "tessera/base/counter_rng.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kVocab = 8192;  ///< of embeddings

std::unique_ptr<DeviceMemory> uploaded(Device& device, const void* data, std::int64_t bytes) {
  auto memory = device.allocate(MemoryKind::device, bytes);
  device.copy(memory->data(), data, bytes);
  return memory;
}

std::unique_ptr<DeviceMemory> random_tokens(Device& device, std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = philox(0, RandomUse::synthetic_data, 0, static_cast<std::uint64_t>(i));
    tokens.push_back(static_cast<std::int32_t>(bits[0] % static_cast<std::uint64_t>(vocab)));
  }
  return uploaded(device, tokens.data(), count * size_of(DType::int32));
}

/// Scalars of a step whose updates stay small.
StepScalars small_step() {
  StepScalars scalars;
  scalars.learning_rate = 1e-6f, scalars.gradient_scale = 1e-3f;
  scalars.bias_correction1 = scalars.bias_correction2 = 0.5f;
  scalars.step = scalars.adam_step = 1;
  return scalars;
}

template <class T>
const T* as(const std::unique_ptr<DeviceMemory>& memory) {
  return reinterpret_cast<const T*>(memory->data());
}

}  // namespace

KernelLadder::KernelLadder(Device& device, Kernels& kernels, const LadderSizes& sizes)
    : device_(device),
      kernels_(kernels),
      sizes_(sizes),
      from_(device, MemoryKind::device, sizes.memory),
      to_(device, MemoryKind::device, sizes.memory),
      state_(device, MemoryKind::device, sizes.memory),
      squares_(device, MemoryKind::device, sizes.memory, false),  // AdamW takes the root of second moments
      asked_(make_observed_kernels(nullptr, *this)),
      stream_(device.make_caller_stream("asked")) {
  const StepScalars scalars = small_step();
  scalars_ = uploaded(device, &scalars, sizeof scalars);
  ExactSum none{};
  none.clear();
  sum_ = uploaded(device, &none, sizeof none);
  tokens_ = random_tokens(device, sizes.elements.back() / kLadderWidth, kVocab);
  few_tokens_ = random_tokens(device, sizes.head_tokens.back(), sizes.vocab.front());
}

std::span<const std::int64_t> KernelLadder::of_matmuls(const std::vector<std::int64_t>& sizes, DType t) const {
  const bool is_slow = t == DType::fp32 && traits_of(device_.kind()).has_own_memory;
  return std::span(sizes).first(sizes.size() - (is_slow && sizes.size() > 1 ? 1 : 0));
}

void KernelLadder::add_stored(Call call) {
  work_ = [this, call](Stream& stream) { call(kernels_, stream); };
  call(*asked_, *stream_);
}

void KernelLadder::add(const Call& call) {
  before_ = [this, call](Stream& stream) {
    const std::array places{from_.place(), to_.place()};
    call(kernels_, stream);
    from_.return_to(places[0]), to_.return_to(places[1]);
  };
  add_stored(call);
  before_ = nullptr;
}

void KernelLadder::call(const KernelCall& call, const std::function<void()>&) {
  const std::string name = prefix_ + price_name(call);
  auto price = std::ranges::find(prices_, name, &PricedCalls::name);
  if (price == prices_.end()) price = prices_.insert(price, {name, {}, {}});
  std::vector<std::pair<PriceAxis, double>> at;
  if (call.group != KernelGroup::other) {
    for (std::size_t i = 0; i < call.sizes.size(); ++i)
      at.emplace_back(static_cast<PriceAxis>(i), static_cast<double>(call.sizes[i]));
  } else if (call.cost.flops > 0) {
    at = {{PriceAxis::flops, call.cost.flops}};
  } else {
    at = {{PriceAxis::bytes, call.cost.bytes}};
  }
  price->axes.resize(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    price->axes[i].axis = at[i].first;
    std::vector<double>& values = price->axes[i].values;
    if (values.empty() || values.back() < at[i].second) values.push_back(at[i].second);  // sizes come in order
  }
  price->calls.push_back(work_);
  price->before.push_back(call.cost.bytes <= static_cast<double>(sizes_.cached) ? before_ : StreamWork());
}

void* KernelLadder::need(std::int64_t bytes) {
  if (scratch_ == nullptr || scratch_->size() < bytes) scratch_ = device_.allocate(MemoryKind::device, bytes);
  return scratch_->data();
}

std::vector<PricedCalls> KernelLadder::all(DType t) {
  for (const std::int64_t elements : sizes_.elements)
    add_activations(t, elements), add_state(t, elements), add_elements(t, elements);
  for (const std::int64_t tokens : of_matmuls(sizes_.tokens, t)) {
    for (const std::int64_t in : of_matmuls(sizes_.widths, t)) {
      for (const std::int64_t out : of_matmuls(sizes_.widths, t)) add_linear(t, tokens, in, out, {});
    }
  }
  add_attentions(t);
  for (const std::int64_t tokens : of_matmuls(sizes_.head_tokens, t)) {
    for (const std::int64_t width : of_matmuls(sizes_.head_widths, t)) {
      for (const std::int64_t vocab : sizes_.vocab) add_head(t, tokens, width, vocab);
    }
  }
  if (t == DType::fp32) std::ranges::for_each(sizes_.sides, [this](std::int64_t side) { add_matrix(side); });
  return std::move(prices_);
}

std::vector<PricedCalls> KernelLadder::of_host(DType t) {
  prefix_ = "host ";
  for (const std::int64_t elements : sizes_.elements) add_state(t, elements);
  return take();
}

std::vector<PricedCalls> KernelLadder::of_fp8(DType t) {
  const std::int64_t n = sizes_.tokens.back(), width = sizes_.widths.rbegin()[sizes_.widths.size() > 1 ? 1 : 0];
  prefix_ = "fp8 ";
  add_linear(t, n, width, width, {rounded(t, n, width), rounded(t, width, width), rounded(t, n, width)});
  return take();
}

Fp8Operand KernelLadder::rounded(DType t, std::int64_t rows, std::int64_t columns) {
  const std::int64_t bytes = rows * columns * size_of(type_in_fp8(t));
  std::byte* const at = rounded_.emplace_back(device_.allocate(MemoryKind::device, 2 * bytes + 64))->data();
  const View lying{at, type_in_fp8(t), columns}, turned{at + bytes, type_in_fp8(t), rows};
  Fp8Arguments a{rows, columns, Fp8::e4m3, read(t, rows, columns), lying, turned};
  a.factor = reinterpret_cast<float*>(at + 2 * bytes);
  kernels_.to_fp8(*stream_, a), stream_->synchronize();
  return {lying, turned, a.factor};
}

std::vector<PricedCalls> KernelLadder::of_own_attention(DType t) {
  prefix_ = "own ";
  add_attentions(t);
  return take();
}

void KernelLadder::add_activations(DType t, std::int64_t elements) {
  constexpr std::int64_t w = kLadderWidth, s = kLadderSequence;
  const std::int64_t n = elements / w, b = n / s;
  const KernelNeeds& needs = kernel_needs(device_.kind());
  const auto* const tokens = as<std::int32_t>(tokens_);
  const auto r = [=, this](std::int64_t rows) { return read(t, rows, w); };
  const auto o = [=, this](std::int64_t rows) { return write(t, rows, w); };
  add([=](Kernels& k, Stream& on) {
    k.embedding_forward(on, {b, s, w, kVocab, tokens, nullptr, r(kVocab), r(s), o(n), {}});
  });
  add([=, this, &needs](Kernels& k, Stream& on) {
    void* const scratch = need(needs.embedding_backward(n));
    k.embedding_backward(on, {b, s, w, kVocab, s, tokens, nullptr, r(n), {o(kVocab), true}, {o(s)}, {}, scratch});
  });
  add([=, this](Kernels& k, Stream& on) {
    k.norm_forward(on, {n, w, 1e-5f, 0, true, r(n), r(1), r(1), {}, o(n), floats(to_, n), floats(to_, n)});
  });
  add([=, this, &needs](Kernels& k, Stream& on) {
    const float *mean = floats(from_, n), *deviation = floats(from_, n);
    void* const scratch = need(needs.norm_backward(n, w));
    k.norm_backward(
        on, {n, w, 0, true, r(n), r(1), r(1), mean, deviation, r(n), o(n), true, {}, {}, {o(1)}, {o(1)}, scratch});
  });
  add([=](Kernels& k, Stream& on) { k.gelu(on, r(n), o(n), n, w, nullptr); });
  if (device_.multiplies_fp8())
    add([=, this](Kernels& k, Stream& on) {
      k.to_fp8(on, {n, w, Fp8::e4m3, r(n), write(type_in_fp8(t), n, w), {}, floats(to_, 2)});
    });
  add([=, this](Kernels& k, Stream& on) {
    k.rotary(on, {b, s, w / 64, 64, floats(from_, s * 64), nullptr, false, r(n), o(n)});
  });
  add([=](Kernels& k, Stream& on) { k.glu_forward(on, {n, w, r(n), r(n), o(n)}); });
  add([=](Kernels& k, Stream& on) { k.glu_backward(on, {n, w, r(n), r(n), r(n), o(n), o(n), {}}); });
  add([=, this](Kernels& k, Stream& on) {
    k.dropout(on, r(n), o(n), n, w, {0.1f, s, 0, DropoutSite::embedding, as<StepScalars>(scalars_)});
  });
}

UpdateArguments KernelLadder::update(DType t, std::int64_t n, std::size_t states) {
  UpdateArguments a;
  a.elements = n, a.master = floats(state_, n);
  states_ = {floats(state_, n), floats(squares_, n)};
  a.states = std::span(states_).first(states);
  a.momentum = 0.95, a.gradient = from_.next(n * size_of(t)), a.gradient_dtype = t;
  run_ = {0, n, true};
  a.runs = {&run_, 1};
  a.scalars = as<StepScalars>(scalars_);
  return a;
}

void KernelLadder::add_state(DType t, std::int64_t n) {
  add_stored([=, this](Kernels& k, Stream& on) { k.adamw(on, update(t, n, 2)); });
  add_stored(
      [=, this](Kernels& k, Stream& on) { k.cast(on, floats(from_, n), DType::fp32, write(t, 1, n).data, t, n); });
}

void KernelLadder::add_elements(DType t, std::int64_t n) {
  const auto r = [=, this] { return read(t, 1, n).data; };
  add_stored([=, this](Kernels& k, Stream& on) { k.add(on, r(), t, r(), t, write(t, 1, n).data, t, n); });
  add_stored(
      [=, this](Kernels& k, Stream& on) { k.square_sum(on, r(), t, n, reinterpret_cast<ExactSum*>(sum_->data())); });
  add_stored([=, this](Kernels& k, Stream& on) {
    UpdateArguments a = update(t, n, 1);
    a.direction = floats(from_, n);
    k.muon(on, a);
  });
  add_stored([=, this](Kernels& k, Stream& on) {
    k.muon_direction(on, {n, floats(from_, n), DType::fp32, r(), t, 0.95, floats(to_, n), as<StepScalars>(scalars_)});
  });
}

void KernelLadder::add_linear(DType t, std::int64_t n, std::int64_t in, std::int64_t out, const Rounded& in_fp8) {
  const auto r = [=, this](std::int64_t rows, std::int64_t columns) { return read(t, rows, columns); };
  const auto o = [=, this](std::int64_t rows, std::int64_t columns) { return write(t, rows, columns); };
  for (const bool gelu : {false, true}) {
    add([=](Kernels& k, Stream& on) {
      const View activated = gelu ? o(n, out) : View{};
      // As in models: a projection that does not widen its rows adds the residual stream.
      const ConstView residual = !gelu && out <= in ? r(n, out) : ConstView{};
      LinearForward f{n, in, out, r(n, in), r(in, out), {}, r(1, out), residual, o(n, out), activated, false, {}};
      f.input8 = in_fp8.input, f.weight8 = in_fp8.weight;
      k.linear_forward(on, f);
    });
    add([=](Kernels& k, Stream& on) {
      const ConstView before = gelu ? r(n, in) : ConstView{};
      LinearBackward g{n,        in,    out,    r(n, in), r(in, out),   {},         r(n, out),
                       o(n, in), false, before, {},       {o(in, out)}, {o(1, out)}};
      g.input8 = in_fp8.input, g.weight8 = in_fp8.weight, g.gradient8 = in_fp8.gradient;
      k.linear_backward(on, g);
    });
  }
}

void KernelLadder::add_attentions(DType t) {
  for (const std::int64_t rows : sizes_.rows) {
    for (const std::int64_t sequence : of_matmuls(sizes_.sequences, t)) {
      for (const std::int64_t width : sizes_.head_width) add_attention(t, {1, sequence, rows, rows, width});
    }
  }
}

void KernelLadder::add_attention(DType t, const AttentionShape& shape) {
  const std::int64_t tokens = shape.sequence, width = shape.heads * shape.head_width, rows = shape.heads * tokens;
  const auto r = [=, this] { return read(t, tokens, width); };
  const auto o = [=, this] { return write(t, tokens, width); };
  add([=, this](Kernels& k, Stream& on) {
    k.attention_forward(on, {shape, r(), r(), r(), o(), floats(to_, rows), nullptr, {}});
  });
  add([=, this](Kernels& k, Stream& on) {
    const GpuAttention by = possible_attention(GpuAttention::cudnn, shape, t);
    void* const scratch = need(kernel_needs(device_.kind()).attention_backward(shape, t, by));
    k.attention_backward(on,
                         {shape, r(), r(), r(), r(), floats(from_, rows), nullptr, r(), o(), o(), o(), {}, scratch});
  });
}

void KernelLadder::add_head(DType t, std::int64_t tokens, std::int64_t width, std::int64_t vocab) {
  for (const bool training : {true, false}) {
    add([=, this](Kernels& k, Stream& on) {
      HeadArguments a;
      a.tokens = tokens, a.width = width, a.vocab = a.table_rows = vocab, a.logits = t, a.epsilon = 1e-5f;
      a.input = read(t, tokens, width), a.gain = read(t, 1, width), a.bias = read(t, 1, width);
      a.table = read(t, vocab, width), a.targets = as<std::int32_t>(few_tokens_);
      a.loss = reinterpret_cast<double*>(to_.next(sizeof(double))), a.scalars = as<StepScalars>(scalars_);
      if (training) {
        a.input_gradient = write(t, tokens, width), a.table_gradient = {write(t, vocab, width)};
        a.gain_gradient = {write(t, 1, width)}, a.bias_gradient = {write(t, 1, width)};
      }
      a.scratch = need(kernel_needs(device_.kind()).head(a.shape()));
      k.head(on, a);
    });
  }
}

void KernelLadder::add_matrix(std::int64_t side) {
  add_stored([=, this](Kernels& k, Stream& on) {
    const DType t = DType::fp32;
    void* const scratch = need(kernel_needs(device_.kind()).orthogonalize(side, side));
    k.orthogonalize(on, {side, side, read(t, side, side), write(t, side, side), 5, scratch});
  });
}

}  // namespace tessera
