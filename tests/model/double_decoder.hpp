#pragma once
// GPT-2's forward pass written down plainly in double: the truth that the decoder's gradients are compared with, by
// central differences. It knows nothing of parts, tiles or saved values.

#include <cmath>
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

  /// Mean loss over the tokens.
  double loss() const {
    double sum = 0;
    for (std::int64_t b = 0; b < model_.batch; ++b) sum += sequence_loss(b);
    return sum / static_cast<double>(model_.tokens());
  }

  /// d loss / d tensor by central differences.
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
  const Doubles& p(const std::string& name) const { return parameters.at("transformer." + name); }

  Doubles norm(const Doubles& x, const std::string& name) const {
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    Doubles y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - mean) / std::sqrt(variance + a_.norm_epsilon) * p(name + ".weight")[i] + p(name + ".bias")[i];
    }
    return y;
  }

  Doubles linear(const Doubles& x, const std::string& name) const {
    const Doubles& w = p(name + ".weight");
    Doubles y = p(name + ".bias");
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += x[i] * w[i * y.size() + o];
    }
    return y;
  }

  void attention(Rows& x, const std::string& h) const {
    const auto width = static_cast<std::size_t>(a_.width), head_width = static_cast<std::size_t>(a_.head_width());
    Rows qkv;
    for (const Doubles& row : x) qkv.push_back(linear(norm(row, h + "ln_1"), h + "attn.c_attn"));
    for (std::size_t i = 0; i < x.size(); ++i) {
      Doubles out(width);
      for (std::size_t q0 = 0; q0 < width; q0 += head_width) {
        Doubles probability(i + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t c = 0; c < head_width; ++c) score += qkv[i][q0 + c] * qkv[j][width + q0 + c];
          sum += probability[j] = std::exp(score / std::sqrt(static_cast<double>(head_width)));
        }
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t c = 0; c < head_width; ++c) out[q0 + c] += probability[j] / sum * qkv[j][2 * width + q0 + c];
        }
      }
      const Doubles projected = linear(out, h + "attn.c_proj");
      for (std::size_t c = 0; c < width; ++c) x[i][c] += projected[c];
    }
  }

  void mlp(Rows& x, const std::string& h) const {
    for (Doubles& row : x) {
      Doubles u = linear(norm(row, h + "ln_2"), h + "mlp.c_fc");
      for (double& v : u) v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      const Doubles y = linear(u, h + "mlp.c_proj");
      for (std::size_t c = 0; c < row.size(); ++c) row[c] += y[c];
    }
  }

  double sequence_loss(std::int64_t b) const {
    const auto width = static_cast<std::size_t>(a_.width), vocab = static_cast<std::size_t>(a_.vocab);
    Rows x;
    for (std::int64_t t = 0; t < model_.sequence; ++t) {
      const auto token = static_cast<std::size_t>(tokens_[static_cast<std::size_t>(b * model_.sequence + t)]);
      Doubles row(width);
      for (std::size_t c = 0; c < width; ++c)
        row[c] = p("wte.weight")[token * width + c] + p("wpe.weight")[static_cast<std::size_t>(t) * width + c];
      x.push_back(row);
    }
    for (std::int64_t i = 0; i < a_.layers; ++i) {
      attention(x, "h." + std::to_string(i) + ".");
      mlp(x, "h." + std::to_string(i) + ".");
    }
    const Doubles& table = a_.tied_head ? p("wte.weight") : parameters.at("lm_head.weight");
    double loss = 0;
    for (std::int64_t t = 0; t < model_.sequence; ++t) {
      const Doubles n = norm(x[static_cast<std::size_t>(t)], "ln_f");
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
