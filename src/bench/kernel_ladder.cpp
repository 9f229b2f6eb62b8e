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
      stream_(device.make_caller_stream("ladder")) {
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

void KernelLadder::add(const Call& call) {
  add_stored(call, [this, call](Stream& stream) {
    const std::array places{from_.place(), to_.place()};
    kernels_.run(stream, call());
    from_.return_to(places[0]), to_.return_to(places[1]);
  });
}

void KernelLadder::add_stored(const Call& work, const StreamWork& before) {
  const KernelCall call = *describe(work());
  const std::string name = price_name(call, by_), exact = by_ == PricedBy::fp8 ? price_name(call) : "";
  auto price = std::ranges::find(prices_, name, &PricedCalls::name);
  if (price == prices_.end()) price = prices_.insert(price, {.name = name, .axes = {}, .calls = {}, .exact = exact});
  std::vector<std::pair<PriceAxis, double>> at;
  if (call.group != KernelGroup::other) {
    int axis = static_cast<int>(call.group == KernelGroup::attention ? PriceAxis::rows : PriceAxis::tokens);
    for (const auto size : call.sizes) at.emplace_back(static_cast<PriceAxis>(axis++), static_cast<double>(size));
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
  price->calls.emplace_back([this, work](Stream& stream) { kernels_.run(stream, work()); });
  price->before.push_back(call.cost.bytes <= static_cast<double>(sizes_.cached) ? before : StreamWork());
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
  by_ = PricedBy::host;
  for (const std::int64_t elements : sizes_.elements) add_state(t, elements);
  return take();
}

std::vector<PricedCalls> KernelLadder::of_fp8(DType t) {
  const std::int64_t n = sizes_.tokens.back(), width = sizes_.widths.rbegin()[sizes_.widths.size() > 1 ? 1 : 0];
  by_ = PricedBy::fp8;
  add_linear(t, n, width, width, {rounded(t, n, width), rounded(t, width, width), rounded(t, n, width)});
  return take();
}

Fp8Operand KernelLadder::rounded(DType t, std::int64_t rows, std::int64_t columns) {
  const std::int64_t bytes = rows * columns * size_of(type_in_fp8(t));
  std::byte* const at = rounded_.emplace_back(device_.allocate(MemoryKind::device, 2 * bytes + 64))->data();
  const View lying{at, type_in_fp8(t), columns}, turned{at + bytes, type_in_fp8(t), rows};
  ToFp8 a;
  a.rows = rows, a.columns = columns, a.input = read(t, rows, columns), a.output = lying, a.turned = turned;
  a.factor = reinterpret_cast<float*>(at + 2 * bytes);
  kernels_.run(*stream_, a), stream_->synchronize();
  return {lying, turned, a.factor};
}

std::vector<PricedCalls> KernelLadder::of_own_attention(DType t) {
  by_ = PricedBy::own;
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
  add<EmbeddingForward>([=](auto& a) {
    a.batch = b, a.sequence = s, a.width = w, a.vocab = kVocab, a.tokens = tokens, a.token_table = r(kVocab);
    a.position_table = r(s), a.output = o(n);
  });
  add<EmbeddingBackward>([=, this, &needs](auto& a) {
    a.batch = b, a.sequence = s, a.width = w, a.vocab = kVocab, a.context = s, a.tokens = tokens;
    a.output_gradient = r(n), a.token_gradient = {o(kVocab), true}, a.position_gradient = {o(s)};
    a.scratch = need(needs.embedding_backward(n));
  });
  add<NormForward>([=, this](auto& a) {
    a.tokens = n, a.width = w, a.epsilon = 1e-5f, a.input = r(n), a.gain = r(1), a.bias = r(1), a.output = o(n);
    a.mean = floats(to_, n), a.reciprocal_deviation = floats(to_, n);
  });
  add<NormBackward>([=, this, &needs](auto& a) {
    a.tokens = n, a.width = w, a.input = r(n), a.gain = r(1), a.bias = r(1), a.mean = floats(from_, n);
    a.reciprocal_deviation = floats(from_, n), a.output_gradient = r(n), a.input_gradient = o(n);
    a.input_adds = true, a.gain_gradient = {o(1)}, a.bias_gradient = {o(1)};
    a.scratch = need(needs.norm_backward(n, w));
  });
  add([=] { return GeluForward{n, w, r(n), o(n)}; });
  if (device_.multiplies_fp8())
    add<ToFp8>([=, this](auto& a) {
      a.rows = n, a.columns = w, a.input = r(n), a.output = write(type_in_fp8(t), n, w);
      a.factor = floats(to_, 2);
    });
  add<Rotate>([=, this](auto& a) {
    a.batch = b, a.sequence = s, a.heads = w / 64, a.head_width = 64, a.table = floats(from_, s * 64);
    a.input = r(n), a.output = o(n);
  });
  add([=] { return GluForward{.tokens = n, .width = w, .gate = r(n), .up = r(n), .output = o(n)}; });
  add<GluBackward>([=](auto& a) {
    a.tokens = n, a.width = w, a.gate = r(n), a.up = r(n), a.output_gradient = r(n), a.gate_gradient = o(n);
    a.up_gradient = o(n);
  });
  add([=, this] {
    const Dropout dropout{.probability = 0.1f, .sequence = s, .scalars = as<StepScalars>(scalars_)};
    return ApplyDropout{.rows = n, .columns = w, .input = r(n), .output = o(n), .dropout = dropout};
  });
}

ParameterUpdate KernelLadder::update(DType t, std::int64_t n, UpdateRule rule) {
  ParameterUpdate a;
  a.rule = rule;
  a.elements = n, a.master = floats(state_, n);
  states_ = {floats(state_, n), floats(squares_, n)};
  a.states = std::span(states_).first(rule == UpdateRule::muon ? 1 : 2);
  a.momentum = 0.95, a.gradient = from_.next(n * size_of(t)), a.gradient_dtype = t;
  run_ = {0, n, true};
  a.runs = {&run_, 1};
  a.scalars = as<StepScalars>(scalars_);
  return a;
}

void KernelLadder::add_state(DType t, std::int64_t n) {
  add_stored([=, this] { return update(t, n, UpdateRule::adamw); });
  add_stored([=, this] { return Cast{{floats(from_, n)}, write(t, 1, n), n}; });
}

void KernelLadder::add_elements(DType t, std::int64_t n) {
  const auto r = [=, this] { return read(t, 1, n); };
  add_stored([=, this] { return Add{r(), r(), write(t, 1, n), n}; });
  add_stored([=, this] { return SquareSum{r(), n, reinterpret_cast<ExactSum*>(sum_->data())}; });
  add_stored([=, this] {
    ParameterUpdate a = update(t, n, UpdateRule::muon);
    a.direction = floats(from_, n);
    return a;
  });
  add_stored<MuonDirection>([=, this](auto& a) {
    a.elements = n, a.state = floats(from_, n), a.gradient = r().data, a.gradient_dtype = t;
    a.output = floats(to_, n), a.scalars = as<StepScalars>(scalars_);
  });
}

void KernelLadder::add_linear(DType t, std::int64_t n, std::int64_t in, std::int64_t out, const Rounded& in_fp8) {
  const auto r = [=, this](std::int64_t rows, std::int64_t columns) { return read(t, rows, columns); };
  const auto o = [=, this](std::int64_t rows, std::int64_t columns) { return write(t, rows, columns); };
  for (const bool gelu : {false, true}) {
    add<LinearForward>([=](auto& a) {
      // As in models: a projection that does not widen its rows adds the residual stream.
      const bool adds = !gelu && out <= in;
      a.tokens = n, a.in = in, a.out = out, a.input = r(n, in), a.weight = r(in, out), a.bias = r(1, out);
      a.residual = adds ? r(n, out) : ConstView(), a.output = o(n, out), a.activated = gelu ? o(n, out) : View();
      a.input8 = in_fp8.input, a.weight8 = in_fp8.weight;
    });
    add<LinearBackward>([=](auto& a) {
      a.tokens = n, a.in = in, a.out = out, a.input = r(n, in), a.weight = r(in, out);
      a.output_gradient = r(n, out), a.input_gradient = o(n, in), a.before_gelu = gelu ? r(n, in) : ConstView();
      a.weight_gradient = {o(in, out)}, a.bias_gradient = {o(1, out)}, a.input8 = in_fp8.input;
      a.weight8 = in_fp8.weight, a.gradient8 = in_fp8.gradient;
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
  add<AttentionForward>([=, this](auto& a) {
    a.shape = shape, a.query = r(), a.key = r(), a.value = r(), a.output = o();
    a.log_sum_exp = floats(to_, rows);
  });
  add<AttentionBackward>([=, this](auto& a) {
    const GpuAttention by = possible_attention(GpuAttention::cudnn, shape, t);
    a.shape = shape, a.query = r(), a.key = r(), a.value = r(), a.output = r();
    a.log_sum_exp = floats(from_, rows), a.output_gradient = r(), a.query_gradient = o(), a.key_gradient = o();
    a.value_gradient = o(), a.scratch = need(kernel_needs(device_.kind()).attention_backward(shape, t, by));
  });
}

void KernelLadder::add_head(DType t, std::int64_t tokens, std::int64_t width, std::int64_t vocab) {
  for (const bool training : {true, false}) {
    add<HeadLoss>([=, this](auto& a) {
      a.tokens = tokens, a.width = width, a.vocab = a.table_rows = vocab, a.logits = t, a.epsilon = 1e-5f;
      a.input = read(t, tokens, width), a.gain = read(t, 1, width), a.bias = read(t, 1, width);
      a.table = read(t, vocab, width), a.targets = as<std::int32_t>(few_tokens_);
      a.loss = reinterpret_cast<double*>(to_.next(sizeof(double))), a.scalars = as<StepScalars>(scalars_);
      if (training) {
        a.input_gradient = write(t, tokens, width), a.table_gradient = {write(t, vocab, width)};
        a.gain_gradient = {write(t, 1, width)}, a.bias_gradient = {write(t, 1, width)};
      }
      a.scratch = need(kernel_needs(device_.kind()).head(a.shape()));
    });
  }
}

void KernelLadder::add_matrix(std::int64_t side) {
  add_stored<Orthogonalize>([=, this](auto& a) {
    a.rows = side, a.columns = side, a.input = read(DType::fp32, side, side);
    a.output = write(DType::fp32, side, side);
    a.scratch = need(kernel_needs(device_.kind()).orthogonalize(side, side));
  });
}

}  // namespace tessera
