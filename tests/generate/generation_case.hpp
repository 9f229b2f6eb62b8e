#pragma once
// Runs generation in tests: ranks as threads, prompts dealt to them as `tessera generate` does.

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "local_world/local_world.hpp"
#include "tessera/base/math.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/generate/generator.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/schedule/verify.hpp"

namespace tessera::testing {

using TokenLists = std::vector<std::vector<std::int32_t>>;

struct GenerationCase {
  Architecture architecture;
  TensorSource weights;
  Options options;
  std::int64_t world = 1, ranks_per_node = 1;
  GenerationShape shape;
  SamplingRules rules{0, 0, 1, 1};
  ResourceSettings settings;
  bool poison = true;
};

/// A folder of tests/reference with what Transformers said.
struct GenerationReference {
  explicit GenerationReference(const std::string& name)
      : folder(std::filesystem::path(TESSERA_REFERENCE_DIR) / name),
        architecture(read_config(folder)),
        weights(folder, parameter_tensors(architecture)) {
    const nlohmann::json json = read_json_object(folder / "generation.json", 1 << 20);
    prompts = json.at("prompts").get<TokenLists>();
    tokens = json.at("tokens").get<TokenLists>();
  }

  std::vector<std::size_t> lengths() const {
    std::vector<std::size_t> out;
    for (const auto& list : tokens) out.push_back(list.size());
    return out;
  }
  std::int64_t positions() const {
    std::size_t most = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) most = std::max(most, prompts[i].size() + tokens[i].size());
    return static_cast<std::int64_t>(most);
  }

  std::filesystem::path folder;
  Architecture architecture;
  HuggingFaceWeights weights;
  TokenLists prompts, tokens;
};

inline GenerationCase case_of(const GenerationReference& reference, const std::vector<std::string>& arguments = {}) {
  GenerationCase c;
  c.architecture = reference.architecture;
  c.weights = [&reference](TensorId tensor, std::int64_t first, std::span<float> out) {
    reference.weights.read(tensor, first, out);
  };
  c.options = parse_arguments(arguments);
  c.shape = {2, 3, reference.positions()};
  return c;
}

/// The function that a rank calls with its open generator.
using GenerationBody = std::function<void(RankContext&, Generator&, const StepSchedule&)>;

inline void with_generator(const GenerationCase& c, const GenerationBody& body) {
  const PlannedRun planned =
      plan_shape(generation_shape(c.options, {c.architecture, c.world, c.ranks_per_node}, c.shape));
  require_verified(planned.schedule, planned.plan);
  run_ranks(c.world, c.ranks_per_node, [&](RankContext& context) {
    const Backend& backend = backend_of(planned.schedule.model.device);
    Resources resources(backend, context, planned.schedule, planned.plan, c.settings);
    set_constants(planned.schedule, resources);
    set_weights(planned.schedule, resources, c.weights);
    context.control().barrier();
    Optimizer optimizer({}, 0);
    PlayerSettings player_settings;
    player_settings.poison = c.poison;
    const auto player = backend.make_player(planned.schedule, resources, optimizer, player_settings);
    Generator generator(planned.schedule, resources, *player, c.rules, c.architecture.vocab);
    body(context, generator, planned.schedule);
    context.control().barrier();
  });
}

/// Goes on with prompts up to lengths[i] tokens each; returns the new ones.
inline TokenLists continuations(const GenerationCase& c, const TokenLists& prompts,
                                const std::vector<std::size_t>& lengths) {
  TokenLists out(prompts.size());
  std::mutex mutex;
  with_generator(c, [&](RankContext& context, Generator& generator, const StepSchedule&) {
    const auto count = static_cast<std::int64_t>(prompts.size());
    const std::int64_t rounds = ceil_div(ceil_div(count, c.shape.batch), c.world);
    for (std::int64_t round = 0; round < rounds; ++round) {
      std::vector<GenerationPrompt> mine;
      const std::int64_t first = (round * c.world + context.rank()) * c.shape.batch;
      for (std::int64_t i = first; i < std::min(count, first + c.shape.batch); ++i)
        mine.push_back({i, prompts[static_cast<std::size_t>(i)]});
      generator.run(mine, [&](std::size_t slot, std::int32_t token) {
        const std::lock_guard lock(mutex);
        const auto number = static_cast<std::size_t>(mine[slot].number);
        out[number].push_back(token);
        return out[number].size() < lengths[number];
      });
    }
  });
  return out;
}

}  // namespace tessera::testing
