#include <algorithm>
#include <chrono>
#include <cstdio>

#include "commands/generate_text.hpp"
#include "commands/loaded_model.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/generate/generator.hpp"
#include "tessera/resolve/model_tokenizer.hpp"
#include "tessera/text/chats.hpp"
#include "tessera/text/choose_tokenizer.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

/// Tokens of each prompt that one play takes: whole tiles of attention, and enough rows for fast matmuls.
constexpr std::int64_t kChunk = 128;

/// Returns sizes that depend only on prompts and options. Matmuls of other shapes round differently, and the text must
/// be the same on any number of ranks.
GenerationShape sizes_of(const Options& options, const Architecture& architecture,
                         const std::vector<GenerationPrompt>& prompts) {
  const auto length = [](const GenerationPrompt& p) { return static_cast<std::int64_t>(p.tokens.size()); };
  const GenerationPrompt& longest = *std::ranges::max_element(prompts, {}, length);
  const std::int64_t positions = checked_add(length(longest), options.generate.max_tokens);
  if (positions > architecture.context) {
    const std::int64_t left = architecture.context - length(longest);
    throw refusal("generate.max_tokens = {} after prompt {} of {} makes {} tokens, but the model's context is {}",
                  options.generate.max_tokens, longest.number + 1, counted(length(longest), "token"), positions,
                  architecture.context)
        .use("{}", left > 0 ? fmt::format("1 to {}", left) : "a shorter prompt");
  }
  const auto count = static_cast<std::int64_t>(prompts.size());
  return {std::min(count, options.train.micro_batch), std::min(length(longest), kChunk), positions};
}

/// Batches of prompts, one batch per rank at a time.
class Rounds {
 public:
  Rounds(World& world, const Options& options, Generator& generator, const TextRules& rules, std::int64_t batch)
      : world_(world), options_(options), generator_(generator), rules_(rules), batch_(batch) {}

  void run(const std::vector<GenerationPrompt>& prompts, const std::vector<std::string>& texts) {
    const auto count = static_cast<std::int64_t>(prompts.size());
    const std::int64_t rounds = ceil_div(ceil_div(count, batch_), world_.size());
    for (std::int64_t round = 0; round < rounds; ++round) {
      const std::int64_t first = std::min(count, (round * world_.size() + world_.rank()) * batch_);
      const std::int64_t end = std::min(count, first + batch_);
      play({prompts.begin() + first, prompts.begin() + end}, texts);
    }
  }

  std::int64_t tokens() const { return tokens_; }  ///< of all ranks; on rank 0

 private:
  void play(const std::vector<GenerationPrompt>& mine, const std::vector<std::string>& texts) {
    const GenerateOptions& options = options_.generate;
    Printer printer(options.format, texts.size());
    std::vector<TextMaker> makers;
    for (const GenerationPrompt& p : mine)
      makers.emplace_back(rules_, p.number, texts[static_cast<std::size_t>(p.number)], options.max_tokens);
    // The first text of rank 0 is the next one in order, so it is shown as it comes.
    const bool shows = world_.rank() == 0 && !mine.empty();
    if (shows) printer.begin(makers[0].result());
    const auto start = Clock::now();
    generator_.run(mine, [&](std::size_t slot, std::int32_t token) {
      TextMaker& maker = makers[slot];
      const std::string shown = maker.add(token);
      if (maker.ended()) maker.finish(seconds_since(start));
      if (shows && slot == 0) printer.show(shown + maker.rest());
      return !maker.ended();
    });
    std::string lines;
    for (const TextMaker& maker : makers) lines += json_line(maker.result()) + "\n";
    for (const std::string& of_rank : world_.control().gather(lines)) {
      for (std::size_t at = 0; at < of_rank.size();) {
        const std::size_t end = of_rank.find('\n', at);
        const Continuation result = continuation_from(of_rank.substr(at, end - at));
        printer.print(result);
        tokens_ += static_cast<std::int64_t>(result.tokens.size());
        at = end + 1;
      }
    }
  }

  World& world_;
  const Options& options_;
  Generator& generator_;
  const TextRules& rules_;
  std::int64_t batch_, tokens_ = 0;
};

/// Names a prompt, by its file if it comes from one.
std::string place_of_prompt(const GenerateOptions& options, std::ptrdiff_t index) {
  if (options.prompts.empty()) return "generate.prompt";
  return options.prompts.ends_with(".json") ? options.prompts : fmt::format("{}, prompt {}", options.prompts, index + 1);
}

/// Returns conversations as the chat template asks for an answer to them.
std::vector<std::string> as_asked(const ResolvedRun& run, const Tokenizer& tokenizer, const std::string& name,
                                  std::vector<std::string> conversations) {
  DataOptions data = run.options.data;
  data.chat_template = chat_template_for(run.options, *run.weights);
  ChatRenderer renderer(chat_form(data, tokenizer, name, true));
  for (std::string& conversation : conversations) {
    RenderedChat chat = renderer.render(conversation);
    if (!chat.problem.empty()) {
      throw refusal("{}: {}", place_of_prompt(run.options.generate, &conversation - conversations.data()),
                    chat.problem);
    }
    conversation = std::move(chat.text);
  }
  return conversations;
}

void print_summary(const PlannedRun& planned, std::int64_t prompts, std::int64_t tokens, double seconds) {
  const std::string text =
      fmt::format("{}, {} in {} ({} tokens/s); {}\n", counted(prompts, "prompt"), counted(tokens, "token"),
                  format_seconds(seconds), format_rate(static_cast<double>(tokens) / seconds), ranks_text(planned));
  std::fputs(text.c_str(), stderr);
}

}  // namespace

int run_generate(World& world, Options options, const std::filesystem::path& model) {
  const WaitPhase phase(world.control().waits(), "text was generated", options.run.timeout, "run.timeout");
  name_model(options, model);
  const ResolvedRun run(options, {Purpose::generate, world});
  const std::vector<std::string> stops = stop_strings(options.generate.stop);
  std::vector<std::string> texts;
  if (world.rank() == 0) texts = read_prompts(options);
  const Architecture& architecture = run.architecture;
  const std::string named = tokenizer_name_of(run.options, *run.weights);
  const auto tokenizer = open_named_tokenizer(named);
  std::vector<std::int32_t> begin;
  if (!options.generate.chat) begin = begin_of(*tokenizer, begin_for(run.options, *run.weights));
  if (options.generate.chat && world.rank() == 0) texts = as_asked(run, *tokenizer, named, texts);
  texts = world.control().broadcast(texts);
  const std::vector<GenerationPrompt> prompts = encode_prompts(*tokenizer, texts, begin, architecture.vocab);
  const GenerationShape sizes = sizes_of(run.options, architecture, prompts);
  const PlannedRun planned =
      plan_shape(generation_shape(run.options, {architecture, world.size(), world.ranks_per_node()}, sizes));
  LoadedModel loaded(world, run, planned, {"generation", "generate.max_tokens"});
  const SamplingRules rules{options.generate.temperature, options.generate.top_k, options.generate.top_p,
                            static_cast<std::uint64_t>(options.generate.seed)};
  if (const std::string settings = generation_left_out(run.weights->companions());
      world.rank() == 0 && !settings.empty())
    std::fputs(fmt::format("not taken  {} of generation_config.json\n", settings).c_str(), stderr);
  Generator generator(planned.schedule, loaded.resources(), loaded.player(), rules, tokenizer->vocab());
  const TextRules text_rules{*tokenizer, stops, ends_of_text(*tokenizer, named, run.weights->companions())};
  Rounds rounds(world, run.options, generator, text_rules, sizes.batch);
  const auto start = Clock::now();
  rounds.run(prompts, texts);
  if (world.rank() == 0)
    print_summary(planned, static_cast<std::int64_t>(prompts.size()), rounds.tokens(), seconds_since(start));
  world.control().barrier();
  return static_cast<int>(ExitCode::finished);
}

}  // namespace tessera
