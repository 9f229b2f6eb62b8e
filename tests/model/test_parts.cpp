#include <catch2/catch.hpp>
#include <set>

#include "tessera/base/math.hpp"
#include "tessera/model/parts.hpp"

using namespace tessera;

TEST_CASE("parts cover every tensor, name what backward reads and count the work", "[parts]") {
  for (const std::string& name : preset_names()) {
    INFO(name);
    const Architecture a = preset(name);
    const ModelParts m = declare_parts(a, 2, 64, DType::bf16, DType::fp32);
    REQUIRE(m.parts.size() == static_cast<std::size_t>(2 * a.layers + 2));
    CHECK(m.parts.front().name == "embed");
    CHECK(m.parts[PartId(1)].name == "h.0.attn");
    CHECK(m.parts[PartId(2)].name == "h.0.mlp");
    CHECK(m.parts.back().name == "head");
    std::set<TensorId> seen;
    for (const Part& p : m.parts) {
      CHECK(p.tensors.size() == p.read_in_backward.size());
      for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const ParameterTensor& t = m.tensors[p.tensors[i]];
        const bool again = !seen.insert(p.tensors[i]).second;
        CHECK(again == (p.kind == PartKind::head && t.is_table && a.tied_head));
        if (p.kind == PartKind::embedding) CHECK_FALSE(p.read_in_backward[i]);
        if (t.shape.size() == 2 && p.kind != PartKind::embedding) CHECK(p.read_in_backward[i]);
      }
      if (p.kind != PartKind::embedding) CHECK(p.backward.flops >= 2 * p.forward.flops);
    }
    CHECK(seen.size() == m.tensors.size());
    // 2 FLOPs per weight and token forward, 4 backward, for everything except the tables that are looked up; attention
    // apart.
    std::int64_t matrices = a.vocab * a.width;
    for (const ParameterTensor& t : m.tensors) {
      if (t.shape.size() == 2 && !t.is_table && t.name != "transformer.wpe.weight") matrices += t.elements;
    }
    const std::int64_t attention = 7 * a.layers * m.tokens() * (m.sequence + 1) * a.query_width();
    CHECK(m.training_flops() == 6 * m.tokens() * matrices + attention);
  }
  CHECK_THROWS_WITH(declare_parts(preset("nano"), 1, 257, DType::fp32), Catch::Contains("train.seq_len"));
  CHECK_THROWS_WITH(declare_parts(preset("nano"), 0, 1, DType::fp32), Catch::Contains("train.micro_batch"));
}

TEST_CASE("only a GPU's biases behind the residual stream take sums that come with its gradient", "[parts]") {
  const Architecture gpt2 = preset("gpt2-124m");
  const auto sum_rows = [](const Architecture& a, DeviceKind device) {
    const ModelParts m = declare_parts(a, 2, 64, DType::bf16, DType::fp32, device);
    if (m.gradient_sum_rows == 0) CHECK(m.residual_gradient_elements() == m.residual_elements());
    return m.gradient_sum_rows;
  };
  CHECK(sum_rows(gpt2, DeviceKind::cuda) == 2 * 64 / 16);
  CHECK(sum_rows(gpt2, DeviceKind::cpu) == 0);
  CHECK(sum_rows(preset("qwen2-0.5b"), DeviceKind::cuda) == 0);
  CHECK(sum_rows(preset("llama-1b"), DeviceKind::cuda) == 0);
  Architecture other = gpt2;
  other.dropout = 0.1;
  CHECK(sum_rows(other, DeviceKind::cuda) == 0);
  other = gpt2;
  other.width = 4096, other.heads = other.kv_heads = 32;
  CHECK(sum_rows(other, DeviceKind::cuda) == 0);

  // 3 x 11 rows of 21 elements, then sums of 16, 16 and 1 of them.
  other.width = 21, other.heads = other.kv_heads = 3, other.ffn_width = 50;
  for (const DType compute : {DType::fp32, DType::bf16}) {
    const ModelParts m = declare_parts(other, 3, 11, compute, DType::fp32, DeviceKind::cuda);
    CHECK(m.gradient_sums_offset() == 704);
    CHECK(m.residual_gradient_elements() * size_of(compute) == 704 * size_of(compute) + 3 * 21 * 4);
  }
}

TEST_CASE("what is saved for backward is what the literature counts", "[parts]") {
  // GPT-2 saves of attention two norms' numbers, queries, keys and values, the heads' output, and one logarithm per
  // head and token (Dao et al. 2022). Of an MLP: the norm's numbers and its input of 4 x width. Nothing quadratic.
  Architecture a = preset("nano");
  a.layers = 1, a.heads = a.kv_heads = 3, a.width = 21, a.ffn_width = 50, a.vocab = 67, a.context = 12;
  const ModelParts m = declare_parts(a, 5, 11, DType::bf16);
  const auto saved_bytes = [&](std::size_t part) {
    std::int64_t bytes = 0;
    for (const SavedTensor& saved : m.parts[PartId(part)].saved) bytes += saved.elements * size_of(saved.dtype);
    return bytes;
  };
  constexpr std::int64_t tokens = 5 * 11;
  CHECK(saved_bytes(0) == 0);
  CHECK(saved_bytes(1) == tokens * (2 * 4 + 4 * 21 * 2 + 3 * 4));
  CHECK(saved_bytes(2) == tokens * (2 * 4 + 50 * 2));
  CHECK(saved_bytes(3) == 0);
  CHECK(m.parts[PartId(1)].block == 0);
  CHECK(m.parts[PartId(3)].block == -1);
}

TEST_CASE("what linears in fp8 alone read in backward is saved as their codes", "[parts]") {
  const std::string projection = GENERATE("mlp.c_proj", "mlp.down_proj");
  Architecture a = preset(projection == "mlp.c_proj" ? "nano" : "llama-1b");
  a.layers = 1, a.heads = a.kv_heads = 3, a.width = 24, a.ffn_width = 50, a.vocab = 67, a.context = 12;
  const auto saved = [&](PartChoices choices, DeviceKind device, const char* name) {
    choices.keeps_activated = true;
    const ModelParts m = declare_parts(a, 5, 11, DType::bf16, DType::fp32, device, choices);
    std::pair<DType, std::int64_t> found{DType::byte, 0};
    for (const Part& part : m.parts) {
      for (const SavedTensor& s : part.saved) {
        if (s.name == name) found = {s.dtype, s.elements};
      }
    }
    return found;
  };
  const auto codes = [](std::int64_t count) { return std::pair(DType::e4m3, round_up(count, 64) + 64); };
  const PartChoices in_fp8{.fp8 = Fp8Linears{}};
  const auto kept = saved({}, DeviceKind::cpu, "activated");
  CHECK(kept == std::pair(DType::bf16, std::int64_t{55 * 50}));
  CHECK(saved(in_fp8, DeviceKind::cpu, "activated") == codes(55 * 50));
  CHECK(saved(in_fp8, DeviceKind::cuda, "activated") == codes(64 * 64));
  CHECK(saved({.fp8 = Fp8Linears{25}}, DeviceKind::cpu, "activated") == kept);
  // Attention's backward reads the heads' output, and that of SwiGLU and GELU what they were made of.
  for (const char* const other : {"qkv", "output", "gate", "up", "before_gelu"})
    CHECK(saved(in_fp8, DeviceKind::cpu, other) == saved({}, DeviceKind::cpu, other));
  const auto is_other = [&](const ParameterTensor& t) { return t.name.find(projection) == t.name.npos; };
  CHECK(saved({.trains = is_other, .fp8 = Fp8Linears{}}, DeviceKind::cpu, "activated").second == 0);
  a.adapters = {.rank = 2, .alpha = 2, .targets = {projection}};  // they multiply the numbers of bf16
  CHECK(saved(in_fp8, DeviceKind::cpu, "activated") == kept);
  const auto all = [](const ParameterTensor&) { return true; };
  CHECK(saved({.trains = all, .fp8 = Fp8Linears{}}, DeviceKind::cpu, "activated") == kept);
}

TEST_CASE("a GPU's gate makes its gradients in fp8 where nothing else reads them", "[parts]") {
  using Names = std::set<std::string>;
  const auto in_fp8 = [](DeviceKind device, const PartChoices& choices, bool has_bias = false, int rank = 0) {
    Architecture a = preset("qwen3-0.6b");
    a.layers = 1, a.heads = a.kv_heads = 1, a.head_dim = 8, a.width = 24, a.ffn_width = 48, a.vocab = 67;
    a.mlp_bias = has_bias, a.adapters.rank = rank, a.adapters.targets = {"mlp.up_proj"};
    Names found;
    for (const Part& part : declare_parts(a, 2, 8, DType::bf16, DType::fp32, device, choices).parts) {
      for (const Matrix& matrix : part.matrices) {
        if (matrix.is_gradient_in_fp8) found.insert("d " + matrix.name);
        if (matrix.is_again_in_fp8) found.insert(matrix.name);
      }
    }
    return found;
  };
  const PartChoices fp8{.fp8 = Fp8Linears{}};
  CHECK(in_fp8(DeviceKind::cuda, fp8) == Names{"activated", "d gate", "d up"});
  CHECK(in_fp8(DeviceKind::cuda, {.keeps_activated = true, .fp8 = Fp8Linears{}}) == Names{"d gate", "d up"});
  CHECK(in_fp8(DeviceKind::cpu, fp8).empty());
  CHECK(in_fp8(DeviceKind::cuda, {}).empty());
  CHECK(in_fp8(DeviceKind::cuda, fp8, true).empty());  // the gradient of a bias reads numbers
  const auto trains = [](const char* not_this) {
    return [=](const ParameterTensor& tensor) { return tensor.name.find(not_this) == std::string::npos; };
  };
  CHECK(in_fp8(DeviceKind::cuda, {.trains = trains("up_proj.bias"), .fp8 = Fp8Linears{}}, true).empty());
  CHECK(in_fp8(DeviceKind::cuda, {.trains = trains(".bias"), .fp8 = Fp8Linears{}}, true).size() == 3);
  CHECK(in_fp8(DeviceKind::cuda, {.trains = trains("gate_proj"), .fp8 = Fp8Linears{}}).empty());
  CHECK(in_fp8(DeviceKind::cuda, {.trains = trains("down_proj"), .fp8 = Fp8Linears{}}) == Names{"d gate", "d up"});
  CHECK(in_fp8(DeviceKind::cuda, fp8, false, 2).empty());  // an adapter reads numbers
}

TEST_CASE("norms, gates and GELU measure what linears in fp8 read as a whole", "[parts]") {
  using Names = std::set<std::string>;
  const auto declared = [](Family family, std::int64_t heads, const PartChoices& choices, double dropout = 0) {
    const bool is_gpt2 = family == Family::gpt2;
    Architecture a = preset(is_gpt2 ? "nano" : family == Family::qwen3 ? "qwen3-0.6b" : "gemma3-1b");
    a.layers = 1, a.heads = heads, a.kv_heads = is_gpt2 ? heads : 1, a.head_dim = is_gpt2 ? 0 : 8;
    a.width = 24, a.ffn_width = 48, a.vocab = 67, a.dropout = dropout;
    return declare_parts(a, 2, 8, DType::bf16, DType::fp32, DeviceKind::cuda, choices);
  };
  const auto measured = [&](Family family, std::int64_t heads, const PartChoices& choices) {
    const ModelParts m = declared(family, heads, choices);
    std::pair<Names, Names> found;
    for (const Part& part : m.parts) {
      for (const Matrix& matrix : part.matrices) {
        if (matrix.is_measured) found.first.insert(matrix.name);
        if (matrix.is_gradient_measured) found.second.insert(matrix.name);
      }
    }
    return found;
  };
  const Names made{"activated", "normalized"}, gates{"gate", "up"};
  const PartChoices fp8{.fp8 = Fp8Linears{}}, kept{.keeps_activated = true, .fp8 = Fp8Linears{}};
  CHECK(measured(Family::gpt2, 3, fp8) == std::pair(made, Names()));
  CHECK(measured(Family::gpt2, 3, kept) == std::pair(Names{"normalized"}, Names()));  // by a library's GELU
  CHECK(measured(Family::qwen3, 3, fp8) == std::pair(made, gates));
  CHECK(measured(Family::qwen3, 3, kept) == std::pair(made, gates));
  CHECK(measured(Family::qwen3, 1, fp8) == std::pair(made, gates));  // norms of heads make parts of a gradient
  CHECK(measured(Family::gemma3, 3, fp8) == std::pair(made, Names{"branch", "gate", "up"}));
  CHECK(measured(Family::qwen3, 3, {}) == std::pair(Names(), Names()));
  CHECK(measured(Family::qwen3, 3, {.fp8 = Fp8Linears{25}}) == std::pair(Names(), Names()));
  // The residual gradient, too, where a linear reads it as the next norm has left it.
  const ModelParts sums = declared(Family::gpt2, 3, fp8), qwen3 = declared(Family::qwen3, 3, fp8);
  CHECK((sums.measures_gradient && qwen3.measures_gradient));
  CHECK(sums.gradient_largest_offset() == sums.gradient_sums_offset() + 2 * sums.gradient_sum_rows * 24);
  CHECK(sums.residual_gradient_elements() == sums.gradient_largest_offset() + 2);
  CHECK((qwen3.gradient_largest_offset() == 384 && qwen3.residual_gradient_elements() == 386));
  CHECK_FALSE(declared(Family::gpt2, 3, fp8, 0.1).measures_gradient);
  CHECK_FALSE(declared(Family::gemma3, 3, fp8).measures_gradient);
  CHECK_FALSE(declared(Family::qwen3, 3, {}).measures_gradient);
}

TEST_CASE("borders follow from positions, and empty documents fill the rest", "[parts]") {
  Architecture a = preset("nano");
  a.layers = 1, a.heads = a.kv_heads = 2, a.width = 16, a.ffn_width = 16, a.vocab = 11, a.context = 5;
  const auto parts_for = [&](std::int64_t most, DType compute = DType::bf16) {
    return declare_parts(a, 2, 5, compute, DType::fp32, DeviceKind::cuda,
                         {.attention = GpuAttention::cudnn, .documents = true, .most_documents = most});
  };
  const auto borders = [](const ModelParts& model, std::vector<std::int32_t> positions) {
    std::vector<std::int32_t> input(static_cast<std::size_t>(model.input_integers()), -7);
    std::ranges::copy(positions, input.begin() + 2 * model.tokens());
    fill_borders(model, input.data());
    return std::vector<std::int32_t>(input.begin() + 3 * model.tokens(), input.end());
  };
  using Row = std::vector<std::int32_t>;
  const ModelParts three = parts_for(3);
  CHECK(three.attention == GpuAttention::cudnn);
  CHECK(three.input_integers() == 3 * 10 + 7);
  CHECK(borders(three, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}) == Row{0, 5, 10, 10, 10, 10, 10});  // whole sequences
  CHECK(borders(three, {0, 0, 0, 1, 2, 0, 1, 2, 3, 0}) == Row{0, 1, 2, 5, 9, 10, 10});     // single tokens
  CHECK(borders(three, {0, 1, 2, 0, 1, 2, 3, 4, 0, 0}) == Row{0, 3, 5, 8, 9, 10, 10});  // goes on in the next sequence
  CHECK(borders(three, {0, 1, 0, 1, 0, 0, 0, 1, 0, 1}) == Row{0, 2, 4, 5, 6, 8, 10});   // as many as there may be
  CHECK_THROWS_WITH(borders(three, {0, 0, 0, 1, 0, 0, 0, 0, 1, 2}), Catch::Contains("more than 6 documents"));
  CHECK(parts_for(1000).most_documents == 10);  // a token each
  // Own kernels are told positions alone.
  CHECK(parts_for(0).attention == GpuAttention::own);
  for (const ModelParts& own : {parts_for(0), parts_for(3, DType::fp32)}) {
    CHECK((own.most_documents == 0 && own.input_integers() == 3 * 10));
    CHECK(borders(own, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}).empty());
  }
}
