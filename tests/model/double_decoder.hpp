#pragma once
// The forward pass of every family written down plainly in double: the reference for the decoder's
// gradients, by central differences. It knows nothing of parts, tiles or saved values.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/model/parts.hpp"

namespace tessera::testing {

using Doubles = std::vector<double>;

class DoubleDecoder {
 public:
  DoubleDecoder(const ModelParts& model, std::vector<std::int32_t> tokens, std::vector<std::int32_t> targets)
      : model_(model), a_(model.architecture), tokens_(std::move(tokens)), targets_(std::move(targets)) {
    for (const ParameterTensor& t : model.tensors) parameters[t.name] = Doubles(static_cast<std::size_t>(t.elements));
  }

  /// Returns the mean loss over the tokens.
  double loss() const {
    double sum = 0;
    for (std::int64_t b = 0; b < model_.batch; ++b) sum += sequence_loss(b);
    return sum / static_cast<double>(model_.tokens());
  }

  /// Computes d loss / d tensor by central differences.
  Doubles gradient(const std::string& name) {
    Doubles& p = parameters.at(name);
    Doubles g(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double kept = p[i], h = 1e-5;
      p[i] = kept + h;
      const double up = loss();
      p[i] = kept - h;
      g[i] = (up - loss()) / (2 * h);
      p[i] = kept;
    }
    return g;
  }

  std::map<std::string, Doubles> parameters;

 private:
  using Rows = std::vector<Doubles>;
  const Doubles& p(const std::string& name) const { return parameters.at(name); }
  bool gpt2() const { return a_.family == Family::gpt2; }

  Doubles norm(const Doubles& x, const std::string& name) const {
    double mean = 0, variance = 0;
    if (gpt2()) {
      for (const double v : x) mean += v / static_cast<double>(x.size());
    }
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    Doubles y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - mean) / std::sqrt(variance + a_.norm_epsilon) * (a_.gain_offset + p(name + ".weight")[i]);
      if (gpt2()) y[i] += p(name + ".bias")[i];
    }
    return y;
  }

  /// GPT-2's weights are [in, out], the others' [out, in]; a bias and adapters where there are some.
  Doubles linear(const Doubles& x, const std::string& name) const {
    const Doubles& w = p(name + ".weight");
    Doubles y(w.size() / x.size());
    if (parameters.contains(name + ".bias")) y = p(name + ".bias");
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += x[i] * (gpt2() ? w[i * y.size() + o] : w[o * x.size() + i]);
    }
    if (!parameters.contains(name + ".lora_A.weight")) return y;
    const Doubles &down = p(name + ".lora_A.weight"), &up = p(name + ".lora_B.weight");
    const auto rank = static_cast<std::size_t>(a_.adapters.rank);
    for (std::size_t r = 0; r < rank; ++r) {
      double between = 0;
      for (std::size_t i = 0; i < x.size(); ++i) between += down[r * x.size() + i] * x[i];
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += a_.adapters.scale() * up[o * rank + r] * between;
    }
    return y;
  }

  /// Llama 3's frequencies by wavelength, as its publication has them; or all of them divided.
  double frequency(double i, bool is_local) const {
    const double theta = is_local ? a_.rope_local_theta : a_.rope_theta;
    const double plain = 1 / std::pow(theta, 2 * i / static_cast<double>(a_.head_width()));
    const RopeScaling& s = a_.rope_scaling;
    if (!s.on() || is_local) return plain;
    if (s.original_context == 0) return plain / s.factor;
    const double wavelength = 2 * M_PI / plain, old_context = static_cast<double>(s.original_context);
    if (wavelength > old_context / s.low_freq_factor) return plain / s.factor;
    if (wavelength < old_context / s.high_freq_factor) return plain;
    const double smooth = (old_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    return (1 - smooth) * plain / s.factor + smooth * plain;
  }

  /// Rotates every head of `row` by its position: a pair is a complex number, times exp(i angle).
  Doubles rotated(Doubles row, std::size_t position, bool is_local) const {
    const auto head_width = static_cast<std::size_t>(a_.head_width()), half = head_width / 2;
    for (std::size_t h = 0; h < row.size(); h += head_width) {
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * frequency(static_cast<double>(i), is_local);
        const std::complex<double> z = std::complex<double>(row[h + i], row[h + half + i]) * std::polar(1.0, angle);
        row[h + i] = z.real(), row[h + half + i] = z.imag();
      }
    }
    return row;
  }

  /// Norms every head of `row` by itself, in models that do so.
  Doubles normed_heads(Doubles row, const std::string& name) const {
    if (!parameters.contains(name + ".weight")) return row;
    const std::ptrdiff_t head_width = a_.head_width();
    for (auto head = row.begin(); head != row.end(); head += head_width)
      std::ranges::copy(norm(Doubles(head, head + head_width), name), head);
    return row;
  }

  void attention(Rows& x, std::int64_t block) const {
    const std::string h = (gpt2() ? "transformer.h." : "model.layers.") + std::to_string(block) + ".";
    const bool has_window = !a_.sees_all(block), is_local = has_window && a_.rope_local_theta > 0;
    Rows query, key, value;
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (gpt2()) {
        const Doubles qkv = linear(norm(x[t], h + "ln_1"), h + "attn.c_attn");
        const auto third = [&](std::ptrdiff_t i) {
          return Doubles(qkv.begin() + i * a_.width, qkv.begin() + (i + 1) * a_.width);
        };
        query.push_back(third(0)), key.push_back(third(1)), value.push_back(third(2));
      } else {
        const Doubles n = norm(x[t], h + "input_layernorm");
        query.push_back(rotated(normed_heads(linear(n, h + "self_attn.q_proj"), h + "self_attn.q_norm"), t, is_local));
        key.push_back(rotated(normed_heads(linear(n, h + "self_attn.k_proj"), h + "self_attn.k_norm"), t, is_local));
        value.push_back(linear(n, h + "self_attn.v_proj"));
      }
    }
    const auto head_width = static_cast<std::size_t>(a_.head_width());
    const auto group = static_cast<std::size_t>(a_.heads / a_.kv_heads);
    const auto scalar = static_cast<double>(a_.query_scalar > 0 ? a_.query_scalar : a_.head_width());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto window = static_cast<std::size_t>(a_.window), first = has_window && i >= window ? i + 1 - window : 0;
      Doubles out(query[i].size());
      for (std::size_t head = 0; head < static_cast<std::size_t>(a_.heads); ++head) {
        const std::size_t q0 = head * head_width, k0 = head / group * head_width;
        Doubles probability(i + 1);
        double sum = 0;
        for (std::size_t j = first; j <= i; ++j) {
          double score = 0;
          for (std::size_t c = 0; c < head_width; ++c) score += query[i][q0 + c] * key[j][k0 + c];
          sum += probability[j] = std::exp(score / std::sqrt(scalar));
        }
        for (std::size_t j = first; j <= i; ++j) {
          for (std::size_t c = 0; c < head_width; ++c) out[q0 + c] += probability[j] / sum * value[j][k0 + c];
        }
      }
      Doubles projected = linear(out, h + (gpt2() ? "attn.c_proj" : "self_attn.o_proj"));
      if (a_.output_norms) projected = norm(projected, h + "post_attention_layernorm");
      for (std::size_t c = 0; c < x[i].size(); ++c) x[i][c] += projected[c];
    }
  }

  static double gelu(double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }

  void mlp(Rows& x, std::int64_t block) const {
    const std::string h = (gpt2() ? "transformer.h." : "model.layers.") + std::to_string(block) + ".";
    for (Doubles& row : x) {
      Doubles u;
      if (gpt2()) {
        u = linear(norm(row, h + "ln_2"), h + "mlp.c_fc");
        for (double& v : u) v = gelu(v);
      } else {
        const Doubles n = norm(row, h + (a_.output_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
        const Doubles gate = linear(n, h + "mlp.gate_proj");
        u = linear(n, h + "mlp.up_proj");
        for (std::size_t i = 0; i < u.size(); ++i)
          u[i] *= a_.mlp == MlpKind::geglu ? gelu(gate[i]) : gate[i] / (1 + std::exp(-gate[i]));
      }
      Doubles y = linear(u, h + (gpt2() ? "mlp.c_proj" : "mlp.down_proj"));
      if (a_.output_norms) y = norm(y, h + "post_feedforward_layernorm");
      for (std::size_t c = 0; c < row.size(); ++c) row[c] += y[c];
    }
  }

  double sequence_loss(std::int64_t b) const {
    const auto width = static_cast<std::size_t>(a_.width), vocab = static_cast<std::size_t>(a_.vocab);
    const Doubles& tokens = p(gpt2() ? "transformer.wte.weight" : "model.embed_tokens.weight");
    Rows x;
    for (std::int64_t t = 0; t < model_.sequence; ++t) {
      const auto token = static_cast<std::size_t>(tokens_[static_cast<std::size_t>(b * model_.sequence + t)]);
      Doubles row(width);
      for (std::size_t c = 0; c < width; ++c) {
        row[c] = tokens[token * width + c] * (a_.scaled_embedding ? std::sqrt(static_cast<double>(width)) : 1);
        if (gpt2()) row[c] += p("transformer.wpe.weight")[static_cast<std::size_t>(t) * width + c];
      }
      x.push_back(row);
    }
    for (std::int64_t i = 0; i < a_.layers; ++i) {
      attention(x, i);
      mlp(x, i);
    }
    const Doubles& table = a_.tied_head ? tokens : p("lm_head.weight");
    double loss = 0;
    for (std::int64_t t = 0; t < model_.sequence; ++t) {
      const Doubles n = norm(x[static_cast<std::size_t>(t)], gpt2() ? "transformer.ln_f" : "model.norm");
      const auto target = static_cast<std::size_t>(targets_[static_cast<std::size_t>(b * model_.sequence + t)]);
      double sum = 0, chosen = 0;
      for (std::size_t v = 0; v < vocab; ++v) {
        double logit = 0;
        for (std::size_t c = 0; c < width; ++c) logit += n[c] * table[v * width + c];
        sum += std::exp(logit);
        if (v == target) chosen = logit;
      }
      loss += std::log(sum) - chosen;
    }
    return loss;
  }

  const ModelParts& model_;
  const Architecture& a_;
  std::vector<std::int32_t> tokens_, targets_;
};

}  // namespace tessera::testing
