// Adapters are layers like all others: behind the linears that read a matrix come those of A, which read it too, and
// then those of B, which add to what the linears made.

#include "tessera/model/adapters.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/blocks.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

constexpr std::string_view kWeight = ".weight";

/// Returns "self_attn.q_proj" of "model.layers.3.self_attn.q_proj.weight".
std::string module_in_block(const Architecture& a, const ParameterTensor& weight) {
  const FamilyRules& rules = rules_of(a.family);
  const auto before = rules.prefix.size() + fmt::format(fmt::runtime(rules.block), weight.block).size();
  return weight.name.substr(before, weight.name.size() - before - kWeight.size());
}

/// Calls use(weight, place in the part) for the weights that a linear multiplies with, in the order of their columns.
template <class Use>
void each_weight(const ModelParts& model, const Part& part, const Layer& linear, const Use& use) {
  TensorId next = part.tensors[static_cast<std::size_t>(linear.weight)];
  for (const TensorId id : part.tensors) {
    if (id != next && (!model.tensors[id].follows || model.tensors[id].follows != next)) continue;
    use(model.tensors[id]);
    next = id;
  }
}

class Adapting {
 public:
  Adapting(ModelParts& model, Part& part) : model_(model), a_(model.architecture), part_(part) {}

  void run() {
    const std::vector<Layer> layers = std::exchange(part_.layers, {});
    for (std::size_t first = 0, end = 0; first < layers.size(); first = end) {
      std::vector<Layer> linears, downs, ups;
      const auto joins = [&](const Layer& layer) {
        return layer.kind == LayerKind::linear && layers[first].kind == LayerKind::linear &&
               layer.inputs == layers[first].inputs;
      };
      for (end = first; end == first || (end < layers.size() && joins(layers[end])); ++end) {
        linears.push_back(layers[end]);
        if (joins(layers[end])) adapt(linears.back(), downs, ups);
      }
      linears.insert(linears.end(), downs.begin(), downs.end());
      if (!downs.empty()) std::for_each(linears.begin(), linears.end() - 1, [](Layer& l) { l.ends_gradient = false; });
      linears.insert(linears.end(), ups.begin(), ups.end());
      std::ranges::move(linears, std::back_inserter(part_.layers));
    }
  }

 private:
  void adapt(Layer& linear, std::vector<Layer>& downs, std::vector<Layer>& ups) {
    MatrixSlice to = linear.outputs[0];
    std::vector<std::pair<ParameterTensor, MatrixSlice>> found;  // the list of tensors grows below
    each_weight(model_, part_, linear, [&](const ParameterTensor& weight) {
      const std::int64_t out = linear.layout == WeightLayout::in_out ? weight.shape[1] : weight.shape[0];
      if (std::ranges::count(a_.adapters.targets, module_in_block(a_, weight)) > 0) found.emplace_back(weight, to);
      to.offset += out;
    });
    for (const auto& [weight, columns] : found) {
      const std::int64_t out = linear.layout == WeightLayout::in_out ? weight.shape[1] : weight.shape[0];
      add(linear, weight, columns, out, downs, ups);
    }
    if (found.empty() || linear.outputs.size() == 1) return;
    ups.back().outputs.push_back(linear.outputs[1]);  // GELU is of the sum
    linear.outputs.pop_back();
  }

  void add(const Layer& linear, const ParameterTensor& weight, const MatrixSlice& to, std::int64_t out,
           std::vector<Layer>& downs, std::vector<Layer>& ups) {
    const std::int64_t rank = a_.adapters.rank;
    const MatrixId reduced = part_.matrices.add({.name = module_in_block(a_, weight) + " adapter",
                                                 .dtype = model_.compute,
                                                 .rows = linear.rows,
                                                 .columns = rank});
    part_.matrices[reduced].gradient_with = reduced;
    const MatrixSlice between{reduced, 0, rank};
    Layer down{.kind = LayerKind::linear, .inputs = linear.inputs, .outputs = {between}};
    down.weight = tensor(weight, kAdapterA, {rank, linear.in});
    down.rows = linear.rows, down.in = linear.in, down.out = rank;
    down.adds_gradient = true, down.layout = WeightLayout::out_in;
    // Masks are numbered behind those of the model's own layers, and each block has as many as it has adapters.
    down.adapter = static_cast<std::int32_t>(a_.layers * (1 + number_++)) + part_.block;
    downs.push_back(std::move(down));
    Layer up{.kind = LayerKind::linear, .inputs = {between}, .outputs = {to}};
    up.weight = tensor(weight, kAdapterB, {out, rank});
    up.rows = linear.rows, up.in = rank, up.out = out;
    up.layout = WeightLayout::out_in, up.adds_output = true;
    up.dropout = linear.dropout, up.scale = a_.adapters.scale();
    ups.push_back(std::move(up));
  }

  /// Adds A or B of a weight to the model, and returns its place in the part. They begin as in PEFT: B is zero.
  std::int32_t tensor(const ParameterTensor& weight, std::string_view which, std::vector<std::int64_t> shape) {
    ParameterTensor t;
    t.block = weight.block;
    t.name = weight.name.substr(0, weight.name.size() - kWeight.size() + 1) + std::string(which);
    t.elements = checked_multiply(shape[0], shape[1]);
    if (which == kAdapterA) {
      t.initialization = Initialization::uniform;
      t.bound = 1 / std::sqrt(static_cast<double>(shape[1]));  // He et al. 2015, with a = sqrt(5)
    }
    t.decays = t.is_adapter = true;
    t.shape = std::move(shape);
    part_.tensors.push_back(model_.tensors.add(std::move(t)));
    part_.read_in_backward.push_back(true);
    return static_cast<std::int32_t>(part_.tensors.size()) - 1;
  }

  ModelParts& model_;
  const Architecture& a_;
  Part& part_;
  std::int32_t number_ = 0;
};

}  // namespace

void add_adapters(ModelParts& model) {
  for (Part& part : model.parts) {
    if (part.block >= 0) Adapting(model, part).run();
  }
}

std::vector<std::string> linear_modules(const Architecture& architecture) {
  ModelParts model;
  model.architecture = architecture;
  model.architecture.layers = 1, model.architecture.adapters = {};
  model.batch = model.sequence = 1;
  build_layers(model);
  std::vector<std::string> modules;
  for (const Part& part : model.parts) {
    for (const Layer& layer : part.layers) {
      if (layer.kind != LayerKind::linear || part.block < 0) continue;
      each_weight(model, part, layer, [&](const ParameterTensor& weight) {
        modules.push_back(module_in_block(model.architecture, weight));
      });
    }
  }
  return modules;
}

namespace {

bool names(std::string_view word, std::string_view module) {
  return word == module || (module.ends_with(word) && module[module.size() - word.size() - 1] == '.');
}

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string> named_modules(const Architecture& architecture, std::string_view list) {
  std::vector<std::string> all = linear_modules(architecture);
  if (list == "all" || list == "all-linear") return all;  // the latter is PEFT's word
  std::vector<bool> is_named(all.size(), false);
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view word = without_blanks(list.substr(begin, end - begin));
    bool is_known = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!word.empty() && names(word, all[i])) is_named[i] = is_known = true;
    }
    if (!is_known) {
      throw refuse("lora.targets", list)
          .because("{} has no linear \"{}\" in its blocks", name_of(architecture.family), word)
          .use("all, or some of {}", fmt::join(all, ", "));
    }
    begin = end + 1;
  }
  std::vector<std::string> named;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_named[i]) named.push_back(std::move(all[i]));
  return named;
}

std::vector<std::string> short_names(const Architecture& architecture, const std::vector<std::string>& modules) {
  const std::vector<std::string> all = linear_modules(architecture);
  std::vector<std::string> words;
  for (const std::string& module : modules) {
    const std::string last = module.substr(module.rfind('.') + 1);
    const bool is_clear = std::ranges::all_of(
        all, [&](const std::string& other) { return !names(last, other) || std::ranges::count(modules, other) > 0; });
    const std::string& word = is_clear ? last : module;
    if (std::ranges::count(words, word) == 0) words.push_back(word);
  }
  return words;
}

}  // namespace tessera
