#include "tessera/generate/generator.hpp"

#include <algorithm>
#include <exception>

#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// Returns where the schedule leaves logits for the host.
StorageId logits_on_host(const StepSchedule& schedule) {
  for (const Value& value : schedule.values) {
    if (value.kind == ValueKind::logits && schedule.storage(value.storage).space == MemorySpace::host)
      return value.storage;
  }
  throw InternalError("the schedule generates nothing");
}

}  // namespace

Generator::Generator(const StepSchedule& schedule, Resources& resources, Player& player, const SamplingRules& rules,
                     std::int64_t vocab)
    : schedule_(schedule),
      resources_(resources),
      player_(player),
      sampler_(rules),
      vocab_(static_cast<std::size_t>(std::min(vocab, schedule.model.architecture.vocab))),
      logits_(reinterpret_cast<const float*>(resources.address(logits_on_host(schedule)))) {}

std::span<const float> Generator::logits(std::size_t slot) const {
  const auto vocab = static_cast<std::size_t>(schedule_.model.architecture.vocab);
  return {logits_ + slot * vocab, vocab_};
}

void Generator::play(SegmentRole role, std::span<const Row> rows) {
  const ModelParts& model = schedule_.model_of(role);
  const auto play =
      std::ranges::find(schedule_.generation, role, [&](const Play& p) { return schedule_.segments[p.segment].role; });
  player_.play(*play, PlayPurpose::aside, [&](std::int32_t* tokens, std::int32_t* /*behind*/) {
    const GenerationInputs inputs(tokens, model);
    std::fill_n(tokens, model.input_integers(), 0);
    for (std::size_t b = 0; b < rows.size(); ++b) {
      const Row& row = rows[b];
      const auto first = static_cast<std::int64_t>(b) * model.sequence;
      const auto count = static_cast<std::int64_t>(row.tokens.size());
      for (std::int64_t i = 0; i < count; ++i) {
        tokens[first + i] = row.tokens[static_cast<std::size_t>(i)];
        inputs.positions[first + i] = static_cast<std::int32_t>(row.position + i);
      }
      inputs.counts[b] = static_cast<std::int32_t>(count);
      inputs.rows[b] = static_cast<std::int32_t>(first + std::max<std::int64_t>(count, 1) - 1);
    }
    return std::int64_t{0};
  });
  player_.synchronize();
}

void Generator::run(std::span<const GenerationPrompt> prompts, const TokenSink& sink) {
  const ModelParts& prefill = schedule_.generation_parts->prefill;
  TESSERA_ASSERT(static_cast<std::int64_t>(prompts.size()) <= prefill.batch, "{} prompts for {} rows", prompts.size(),
                 prefill.batch);
  ControlPlane& control = resources_.context.control();
  std::vector<Row> rows(prompts.size());
  std::vector<std::int32_t> tokens(prompts.size());      // the last ones
  std::vector<std::int64_t> lengths(prompts.size(), 0);  // of texts that continue; 0: has ended
  std::exception_ptr failure;
  const auto choose = [&](std::size_t b, std::int64_t length) {
    bool goes_on = false;
    try {
      tokens[b] = sampler_.choose(logits(b), prompts[b].number, length);
      goes_on = sink(b, tokens[b]);
    } catch (const NumericalError&) {
      failure = std::current_exception();  // for the end: other ranks play on with this one
    }
    TESSERA_ASSERT(!goes_on || length < prefill.cache, "a text of {} tokens is longer than its cache", length + 1);
    lengths[b] = goes_on ? length + 1 : 0;
  };

  std::int64_t longest = 0;
  for (const GenerationPrompt& prompt : prompts) {
    TESSERA_ASSERT(!prompt.tokens.empty(), "a prompt without tokens has no next one");
    longest = std::max(longest, static_cast<std::int64_t>(prompt.tokens.size()));
  }
  const std::int64_t chunks = control.maximum(ceil_div(longest, prefill.sequence));
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto first = static_cast<std::size_t>(chunk * prefill.sequence);
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      const std::span<const std::int32_t> all(prompts[b].tokens);
      const std::size_t begin = std::min(first, all.size());
      rows[b] = {all.subspan(begin, std::min(static_cast<std::size_t>(prefill.sequence), all.size() - begin)),
                 static_cast<std::int64_t>(begin)};
    }
    play(SegmentRole::prefill, rows);
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      const auto length = static_cast<std::int64_t>(prompts[b].tokens.size());
      if (!rows[b].tokens.empty() && rows[b].position + static_cast<std::int64_t>(rows[b].tokens.size()) == length)
        choose(b, length);
    }
  }
  const auto any_goes_on = [&] {
    const bool mine = std::ranges::any_of(lengths, [](std::int64_t length) { return length > 0; });
    return control.maximum(static_cast<std::int64_t>(mine)) > 0;
  };
  while (any_goes_on()) {
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      rows[b] = lengths[b] > 0 ? Row{{&tokens[b], 1}, lengths[b] - 1} : Row{};
    }
    play(SegmentRole::decode, rows);
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      if (lengths[b] > 0) choose(b, lengths[b]);
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
