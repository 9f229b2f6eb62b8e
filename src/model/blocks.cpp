// The layers of a model: a family's row and a block's number become lists. Nothing else asks what a model has.

#include "model/blocks.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

/// One of the tensors that a linear's weight consists of, with a bias each if the linear has one.
struct WeightTensor {
  std::string_view module;
  std::int64_t out;
  std::vector<std::int64_t> stacked = {};  ///< as in ParameterTensor
};

class Blocks : PartWriter {
 public:
  explicit Blocks(ModelParts& model) : PartWriter(model), names_(rules_.modules) {}

  void embedding() {
    start("embed", PartKind::embedding, -1);
    Layer layer{.kind = LayerKind::embedding, .outputs = {output()}, .dropout = DropoutSite::embedding};
    layer.table = table(names_.token_table, InBackward::not_read);
    if (a_.positions == PositionKind::learned)
      layer.weight = weight(names_.position_table, {a_.context, a_.width}, InBackward::not_read);
    layer.rows = model_.tokens(), layer.out = a_.width, layer.table_rows = a_.vocab;
    const auto root = std::sqrt(static_cast<float>(a_.width));
    if (a_.scaled_embedding)  // rounded as the table is
      layer.scale = with_float_type(model_.compute, [&]<class T>() { return static_cast<float>(T(root)); });
    add(std::move(layer));
  }

  void attention(int block) {
    start(fmt::format("h.{}.attn", block), PartKind::attention, block);
    const MatrixSlice normalized = norm(names_.attention_norm, input());
    const std::int64_t query_width = a_.query_width(), key_width = a_.key_width();
    // One linear makes queries, keys and values, side by side in rows. Where heads have norms there are three, and
    // their outputs lie one after the other, so that heads are rows without gaps.
    const bool apart = a_.head_norms;
    const std::int64_t all = query_width + 2 * key_width;
    const MatrixId qkv = matrix("qkv", model_.tokens(), all);
    const auto columns = [&](MatrixId of, std::int64_t first, std::int64_t width) {
      return apart ? MatrixSlice{of, model_.tokens() * first, width} : MatrixSlice{of, first, all};
    };
    const MatrixSlice query = columns(qkv, 0, query_width), key = columns(qkv, query_width, key_width);
    const MatrixSlice value = columns(qkv, query_width + key_width, key_width);
    const bool has_bias = a_.linear_bias || a_.qkv_bias || a_.attention_bias;
    const WeightTensor q{names_.query, query_width}, k{names_.key, key_width}, v{names_.value, key_width};
    if (apart) {
      const MatrixId projected = matrix("projected", model_.tokens(), query_width + key_width);
      part().matrices[projected].gradient_with = qkv;
      const MatrixId deviation = matrix("head_deviation", model_.tokens(), a_.heads + a_.kv_heads, DType::fp32);
      linear(normalized, columns(projected, 0, query_width), a_.width, {q}, has_bias);
      linear(normalized, columns(projected, query_width, key_width), a_.width, {k}, has_bias);
      linear(normalized, value, a_.width, {v}, has_bias);
      head_norm(names_.query_norm, projected, query, {deviation, 0, 1}, a_.heads);
      head_norm(names_.key_norm, projected, key, {deviation, model_.tokens() * a_.heads, 1}, a_.kv_heads);
    } else if (!names_.qkv.empty()) {
      linear(normalized, query, a_.width, {{names_.qkv, all, {query_width, key_width, key_width}}}, has_bias);
    } else {
      linear(normalized, query, a_.width, {q, k, v}, has_bias);
    }
    const std::int64_t window = a_.sees_all(block) ? 0 : a_.window;
    if (a_.positions == PositionKind::rotary && apart) {
      const double scale = a_.query_scalar > 0
                               ? std::sqrt(static_cast<double>(a_.head_width()) / static_cast<double>(a_.query_scalar))
                               : 1;
      rotary(query, a_.heads, window, scale);
      rotary(key, a_.kv_heads, window);
    } else if (a_.positions == PositionKind::rotary) {
      rotary(query, a_.heads + a_.kv_heads, window);  // side by side: at once
    }
    const MatrixSlice heads = whole(matrix("output", model_.tokens(), query_width));
    const MatrixSlice log_sum_exp = whole(matrix("log_sum_exp", model_.tokens(), a_.heads, DType::fp32));
    Layer layer{.kind = LayerKind::attention, .inputs = {query, key, value}, .outputs = {heads, log_sum_exp}};
    layer.dropout = DropoutSite::attention;
    layer.heads = a_.heads, layer.kv_heads = a_.kv_heads, layer.head_width = a_.head_width(), layer.window = window;
    // A call puts its keys into the cache before it reads them, so that a window needs room for them as well.
    layer.cache = window > 0 ? std::min(model_.cache, window + model_.chunk - 1) : model_.cache;
    add(std::move(layer));
    project_output(heads, query_width, names_.attention_output, a_.linear_bias || a_.attention_bias,
                   names_.attention_output_norm, DropoutSite::attention_residual);
  }

  void mlp(int block) {
    start(fmt::format("h.{}.mlp", block), PartKind::mlp, block);
    const MatrixSlice normalized = norm(names_.mlp_norm, input());
    const bool gated = a_.is_gated(), has_bias = a_.linear_bias || a_.mlp_bias;
    const std::int64_t width = a_.ffn_width, stride = kernel_needs(model_.device).row_stride(width);
    const auto hidden = [&](const char* name) {
      const MatrixId id = matrix(name, rows(), width);
      part().matrices[id].scratch_stride = stride;
      return MatrixSlice{id, 0, width};
    };
    const MatrixSlice gate = gated ? hidden("gate") : MatrixSlice();
    const MatrixSlice up = hidden(gated ? "up" : "before_gelu"), activated = hidden("activated");
    Matrix& h = part().matrices[activated.matrix];
    h.again = gated ? Matrix::Again::by_backward : Matrix::Again::by_gelu;
    if (model_.keeps_activated && part().chunk == 0) h.place = Matrix::Place::saved;
    h.gradient_with = gated ? gate.matrix : up.matrix;
    if (gated) linear(normalized, gate, a_.width, {{names_.gate, width}}, has_bias);
    Layer& projection = linear(normalized, up, a_.width, {{names_.up, width}}, has_bias);
    if (!gated) projection.outputs.push_back(activated);
    Layer glu{.kind = LayerKind::glu, .inputs = {gate, up}, .outputs = {activated}, .rows = rows()};
    glu.in = width, glu.activation = a_.mlp == MlpKind::geglu ? GateActivation::gelu : GateActivation::silu;
    if (gated) add(std::move(glu));
    project_output(activated, width, names_.down, has_bias, names_.mlp_output_norm, DropoutSite::mlp_residual);
  }

  void head() {
    start("head", PartKind::head, -1);
    if (model_.generates()) return logits();
    Layer layer{.kind = LayerKind::head, .inputs = {input()}};
    layer.rows = model_.tokens(), layer.in = a_.width, layer.out = a_.vocab;
    norm_tensors(layer, names_.final_norm, a_.norm);
    layer.table = head_table();
    layer.table_rows = model_.tensors[part().tensors.back()].padded_elements() / a_.width;
    add(std::move(layer));
  }

 private:
  /// Adds the head of generation: the logits of one row per sequence.
  void logits() {
    const MatrixSlice rows = whole(matrix("rows", model_.batch, a_.width));
    Layer pick{.kind = LayerKind::embedding, .inputs = {input()}, .outputs = {rows}, .rows = model_.batch};
    pick.out = a_.width, pick.table_rows = model_.tokens();
    add(std::move(pick));
    const MatrixSlice normalized = norm(names_.final_norm, rows);
    const MatrixSlice logits = whole(matrix("logits", model_.batch, a_.vocab, DType::fp32));
    part().matrices[logits.matrix].place = Matrix::Place::logits;
    Layer layer{.kind = LayerKind::linear, .inputs = {normalized}, .outputs = {logits}, .weight = head_table()};
    layer.rows = model_.batch, layer.in = a_.width, layer.out = a_.vocab, layer.layout = WeightLayout::out_in;
    add(std::move(layer));
  }

  /// Returns the place of the head's table: the token table, or its own.
  std::int32_t head_table() {
    return a_.tied_head ? place(TensorId(0), InBackward::read) : table(kHeadModule, InBackward::read);
  }

  /// Adds the norm of a matrix, whose output is a matrix of its own or joins the residual stream.
  MatrixSlice norm(std::string_view module, const MatrixSlice& of, bool joins = false) {
    const std::int64_t rows = part().matrices[of.matrix].rows;
    Layer layer{.kind = LayerKind::norm, .inputs = {of}, .rows = rows, .in = a_.width};
    norm_tensors(layer, module, a_.norm);
    const auto statistic = [&](const char* name) { return whole(matrix(name, rows, 1, DType::fp32)); };
    const MatrixSlice mean = layer.subtracts_mean ? statistic("mean") : MatrixSlice();
    const MatrixSlice normalized = joins ? output() : whole(matrix("normalized", rows, a_.width));
    if (!joins) part().matrices[normalized.matrix].again = Matrix::Again::by_backward;
    layer.outputs = {normalized, statistic(joins ? "branch_deviation" : "reciprocal_deviation")};
    if (layer.subtracts_mean) layer.outputs.push_back(mean);
    add(std::move(layer));
    return normalized;
  }

  /// Adds the RMS norms of `heads` heads, from their place in `projected` to `output`, which is the same in its matrix.
  void head_norm(std::string_view module, MatrixId projected, MatrixSlice output, const MatrixSlice& deviation,
                 std::int64_t heads) {
    output.stride = a_.head_width();
    Layer layer{.kind = LayerKind::norm, .outputs = {output, deviation}, .rows = model_.tokens() * heads};
    layer.inputs = {{projected, output.offset, output.stride}};
    layer.in = a_.head_width();
    norm_tensors(layer, module, NormKind::rms_norm);
    add(std::move(layer));
  }

  void norm_tensors(Layer& layer, std::string_view module, NormKind kind) {
    layer.subtracts_mean = kind == NormKind::layer_norm, layer.epsilon = a_.norm_epsilon;
    layer.gain_offset = a_.gain_offset;
    const Initialization initial = a_.gain_offset == 0 ? Initialization::one : Initialization::zero;
    layer.weight = weight(module, {layer.in}, InBackward::read, initial);
    if (layer.subtracts_mean) layer.bias = bias(module, layer.in, InBackward::read);
  }

  /// Adds a linear from `in` columns to those of all tensors, which are rows of one weight behind each other.
  Layer& linear(const MatrixSlice& from, const MatrixSlice& to, std::int64_t in,
                const std::vector<WeightTensor>& tensors, bool has_bias) {
    Layer layer{.kind = LayerKind::linear, .inputs = {from}, .outputs = {to}, .layout = rules_.weight_layout};
    layer.rows = rows(), layer.in = in;
    for (const WeightTensor& one : tensors) {
      const bool in_out = layer.layout == WeightLayout::in_out, is_first = layer.out == 0;
      const std::int32_t w = weight(one.module, in_out ? Shape{in, one.out} : Shape{one.out, in});
      const std::int32_t b = has_bias ? bias(one.module, one.out, InBackward::not_read) : -1;
      tensor(w).stacked = one.stacked;
      const TensorId before = model_.tensors.end_id() - (has_bias ? 4 : 2);  // the weight before this one
      if (!is_first) tensor(w).follows = before;
      if (!is_first && has_bias) tensor(b).follows = before + 1;
      if (is_first) layer.weight = w, layer.bias = b;
      layer.out += one.out;
    }
    layer.is_fp8 = model_.fp8 && std::min(layer.in, layer.out) >= model_.fp8->smallest;
    for (const Layer& other : part().layers)
      layer.adds_gradient |= other.kind == LayerKind::linear && other.inputs[0] == from;
    return add(std::move(layer));
  }

  /// Adds the linear whose output joins the residual stream, by itself or through a norm.
  void project_output(const MatrixSlice& from, std::int64_t in, std::string_view module, bool has_bias,
                      std::string_view norm_module, DropoutSite dropout) {
    const MatrixSlice to = a_.output_norms ? whole(matrix("branch", rows(), a_.width)) : output();
    Layer& layer = linear(from, to, in, {{module, a_.width}}, has_bias);
    layer.dropout = dropout;
    if (rules_.has_small_projections)
      tensor(layer.weight).standard_deviation /= std::sqrt(2.0 * static_cast<double>(a_.layers));
    if (a_.output_norms) norm(norm_module, to, true);
  }

  void rotary(const MatrixSlice& rows, std::int64_t heads, std::int64_t window, double scale = 1) {
    Layer layer{.kind = LayerKind::rotary, .inputs = {rows}, .outputs = {rows}};
    layer.heads = heads, layer.head_width = a_.head_width();
    RotaryTable table{.width = layer.head_width, .theta = a_.rope_theta, .scale = scale, .scaling = a_.rope_scaling};
    if (window > 0 && a_.rope_local_theta > 0) table.theta = a_.rope_local_theta, table.scaling = {};
    layer.constant = constant(table);
    add(std::move(layer));
  }

  const ModuleNames& names_;
};

}  // namespace

void build_layers(ModelParts& model) {
  validate(model.architecture);
  Blocks blocks(model);
  blocks.embedding();
  for (int block = 0; block < model.architecture.layers; ++block) {
    blocks.attention(block);
    blocks.mlp(block);
  }
  blocks.head();
  if (model.architecture.adapters.on()) add_adapters(model);
}

}  // namespace tessera
