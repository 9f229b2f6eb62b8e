#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/choices.hpp"
#include "commands/loaded_model.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/engine/peers.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/resolve/model_tokenizer.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/training/evaluator.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargestFile = std::int64_t{1} << 30;

/// The open data sets to evaluate.
struct Corpora {
  std::vector<NamedSource> named;
  std::int64_t window = 0;  ///< tokens
  std::vector<ValidationSet> sets;
};

/// Returns a window that is no longer than the longest corpus needs, so that a short text costs little.
std::int64_t window_for(const std::vector<NamedSource>& corpora, std::int64_t sequence) {
  constexpr std::int64_t step = 64;
  std::int64_t longest = 1;
  for (const NamedSource& one : corpora) longest = std::max(longest, one.tokens->size() - 1);
  return std::min(sequence, round_up(longest, step));
}

Corpora open_corpora(World& world, const Options& options, std::int64_t vocab, std::int64_t sequence) {
  Corpora corpora;
  const bool is_part_of_source = options.data.val_source.empty(), is_whole = options.train.eval_batches == 0;
  open_on_all(world, options, {}, [&](const CorpusSettings& settings) {
    if (is_part_of_source) {
      corpora.named = open_sources(options, vocab, settings);
    } else {
      corpora.named = open_validation(options, vocab, settings);
    }
    corpora.window = is_whole && !packs_documents(options.data) ? window_for(corpora.named, sequence) : sequence;
    corpora.sets = validation_sets(corpora.named, is_part_of_source ? options.data.val_fraction : 1, corpora.window,
                                   options.data, is_whole ? LastTargets::filled : LastTargets::left_out);
  });
  std::string mine;
  for (const ValidationSet& set : corpora.sets) mine += fmt::format("{:016x} ", fingerprint(*set.source));
  require_equal(world, {{"validation sets", mine}});
  return corpora;
}

/// Prints results on rank 0, as they come.
class Results {
 public:
  Results(World& world, const Options& options, const ModelWeights& weights, const PlannedRun& planned)
      : prints_(world.rank() == 0), format_(options.eval.format) {
    if (!prints_) return;
    model_ = weights.name();
    if (weights.checkpoint() != nullptr) step_ = weights.checkpoint()->manifest().step;
    const std::string line =
        fmt::format("{}{}: {}\n", model_, step_ ? fmt::format(", step {}", *step_) : "", ranks_text(planned));
    std::fputs(line.c_str(), stderr);
  }

  /// `skipped`: documents of the set that are longer than a window (data.too_long = skip).
  void print(const Evaluation& one, std::int64_t skipped, std::int64_t context, double seconds) const {
    const double rate = static_cast<double>(one.tokens) / seconds;
    print({{"set", one.set},
           {"loss", one.loss},
           {"perplexity", one.perplexity()},
           {"tokens", one.tokens},
           {"windows", one.windows},
           {"available_windows", one.available},
           {"left_out", one.left_out},
           {"skipped_documents", skipped},
           {"context", context}},
          fmt::format("{}: {} in {}, {} tokens/s", describe({one}), extent(one, skipped, context),
                      format_seconds(seconds), format_rate(rate)),
          seconds, rate);
  }

  void print(const std::string& file, const std::vector<Question>& questions, const ChoiceScore& score,
             std::int64_t tokens, double seconds) const {
    if (format_ == ResultFormat::json) {
      for (std::size_t i = 0; i < questions.size(); ++i) {
        const Answer& answer = score.answers[i];
        put(Json({{"question", i}, {"losses", answer.means}, {"chosen", answer.chosen}, {"label", questions[i].label}})
                .dump());
      }
    }
    const auto share = [&](std::int64_t right) {
      return static_cast<double>(right) / static_cast<double>(questions.size());
    };
    const double rate = static_cast<double>(tokens) / seconds;
    print(
        {{"choices", file},
         {"questions", questions.size()},
         {"right", score.right},
         {"accuracy", share(score.right)},
         {"accuracy_by_sum", share(score.right_by_sum)},
         {"tokens", tokens}},
        fmt::format("accuracy {:.4f}: {} of {} by the lowest mean loss per token ({:.4f} by the lowest sum); {} in {}, "
                    "{} tokens/s",
                    share(score.right), score.right, counted(std::ssize(questions), "question"),
                    share(score.right_by_sum), counted(tokens, "token"), format_seconds(seconds), format_rate(rate)),
        seconds, rate);
  }

 private:
  static std::string extent(const Evaluation& one, std::int64_t skipped, std::int64_t context) {
    const std::string tokens = counted(one.tokens, "token");
    const std::string longer = skipped == 0 ? "" : fmt::format("; {} left out", counted(skipped, "longer document"));
    if (one.left_out == 0)
      return fmt::format("{}{} ({} of {}{})", skipped == 0 ? "all " : "", tokens, counted(one.windows, "window"),
                         context, longer);
    return fmt::format("{} ({} of {} of {}; {} after them left out{})", tokens, one.windows,
                       counted(one.available, "window"), context, counted(one.left_out, "token"), longer);
  }
  void print(Json json, const std::string& text, double seconds, double rate) const {
    if (!prints_) return;
    if (format_ == ResultFormat::text) return put(text);
    json["seconds"] = seconds;
    json["tokens_per_second"] = rate;
    json["model"] = model_;
    if (step_) json["step"] = *step_;
    put(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  static void put(const std::string& line) {
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
  }

  bool prints_;
  ResultFormat format_;
  std::string model_;
  std::optional<std::int64_t> step_;
};

void evaluate_sets(World& world, const ResolvedRun& run) {
  Options options = run.options;
  const Architecture& architecture = run.architecture;
  const std::int64_t sequence = sequence_length(options, architecture);
  const Corpora corpora = open_corpora(world, options, architecture.vocab, sequence);
  if (tells_borders(options)) options.data.most_documents = most_documents(corpora.sets);
  const PlannedRun planned = plan_shape(
      evaluation_shape(options, {architecture, world.size(), world.ranks_per_node()}, corpora.window, false));
  LoadedModel model(world, run, planned, {"evaluation", "train.seq_len"});
  const Results results(world, options, *run.weights, planned);
  if (world.rank() == 0 && sequence < architecture.context) {
    const std::string note =
        fmt::format("windows of {} tokens (train.seq_len), of a context of {}: losses compare at the same length\n",
                    sequence, architecture.context);
    std::fputs(note.c_str(), stderr);
  }
  Evaluator evaluator(world, planned.schedule, model.optimizer(), model.player(), architecture.vocab);
  for (const ValidationSet& set : corpora.sets) {
    const auto start = Clock::now();
    const Evaluation one = evaluator.evaluate(set, options.train.eval_batches);
    const DocumentPacking* const packing = set.samples.packing();
    const bool skips = packing != nullptr && packing->rule() == TooLong::skip;
    results.print(one, skips ? packing->too_long() : 0, sequence, seconds_since(start));
  }
}

/// Plays rows of endings, one micro-batch of them per rank at a time. Which rows make a micro-batch does not depend on
/// the ranks.
class EndingLosses {
 public:
  EndingLosses(World& world, const StepSchedule& schedule, LoadedModel& model)
      : world_(world), schedule_(schedule), model_(model) {
    for (const Value& value : schedule.values) {
      if (value.kind == ValueKind::token_losses && schedule.storage(value.storage).space == MemorySpace::host)
        losses_ = reinterpret_cast<const float*>(model.resources().address(value.storage));
    }
    TESSERA_ASSERT(losses_ != nullptr, "the schedule leaves no losses of tokens");
  }

  /// Returns the sum of the ending's losses of each row, on rank 0. Collective.
  std::vector<double> of(const std::vector<EndingRow>& rows) {
    std::vector<Sum> mine;
    const std::int64_t batch = schedule_.model.batch, count = std::ssize(rows);
    const std::int64_t rounds = ceil_div(ceil_div(count, batch), world_.size());
    for (std::int64_t round = 0; round < rounds; ++round) {
      const std::int64_t first = std::min(count, (round * world_.size() + world_.rank()) * batch);
      play(rows, first, std::min(count, first + batch), mine);
    }
    std::vector<double> sums(rows.size());
    for (const std::vector<Sum>& of_rank : world_.control().gather(mine))
      for (const Sum& sum : of_rank) sums.at(sum.row) = sum.loss;
    return sums;
  }

 private:
  struct Sum {
    std::uint64_t row = 0;
    double loss = 0;
  };

  void play(const std::vector<EndingRow>& rows, std::int64_t first, std::int64_t end, std::vector<Sum>& out) {
    const std::int64_t sequence = schedule_.model.sequence;
    model_.player().send_inputs();
    model_.player().play(schedule_.evaluation, PlayPurpose::aside, [&](std::int32_t* tokens, std::int32_t* targets) {
      std::fill_n(tokens, schedule_.model.tokens(), 0);
      std::fill_n(targets, schedule_.model.tokens(), 0);
      for (std::int64_t row = first; row < end; ++row) {
        const std::vector<std::int32_t>& all = rows[static_cast<std::size_t>(row)].tokens;
        std::copy(all.begin(), all.end() - 1, tokens + (row - first) * sequence);
        std::copy(all.begin() + 1, all.end(), targets + (row - first) * sequence);
      }
      return std::int64_t{0};
    });
    model_.player().receive_scalars();
    for (std::int64_t row = first; row < end; ++row) {
      const EndingRow& one = rows[static_cast<std::size_t>(row)];
      Sum sum{static_cast<std::uint64_t>(row), 0};
      const float* losses = losses_ + (row - first) * sequence + one.ending - 1;  // of each token's prediction
      for (std::int64_t i = 0; i < one.ending_tokens(); ++i) sum.loss += static_cast<double>(losses[i]);
      out.push_back(sum);
    }
  }

  World& world_;
  const StepSchedule& schedule_;
  LoadedModel& model_;
  const float* losses_ = nullptr;
};

void evaluate_choices(World& world, const ResolvedRun& run) {
  const Options& options = run.options;
  const std::string& file = options.eval.choices;
  const std::string text =
      world.control().broadcast(world.rank() == 0 ? read_text_file(file, kLargestFile) : std::string());
  const Architecture& architecture = run.architecture;
  const std::vector<Question> questions = parse_questions(text, file);
  const auto tokenizer = tokenizer_of(options, *run.weights);
  const std::vector<EndingRow> rows =
      encode_questions(questions, *tokenizer, begin_of(*tokenizer, begin_for(options, *run.weights)),
                       architecture.vocab, architecture.context, file);
  std::size_t longest = 0, tokens = 0;
  for (const EndingRow& row : rows) longest = std::max(longest, row.tokens.size()), tokens += row.tokens.size() - 1;
  const PlannedRun planned = plan_shape(evaluation_shape(options, {architecture, world.size(), world.ranks_per_node()},
                                                         static_cast<std::int64_t>(longest) - 1, true));
  LoadedModel model(world, run, planned, {"evaluation", "shorter questions"});
  const Results results(world, options, *run.weights, planned);
  const auto start = Clock::now();
  const std::vector<double> losses = EndingLosses(world, planned.schedule, model).of(rows);
  if (world.rank() == 0)
    results.print(file, questions, score(questions, rows, losses), static_cast<std::int64_t>(tokens),
                  seconds_since(start));
}

}  // namespace

int run_eval(World& world, Options options, const std::filesystem::path& model) {
  const WaitPhase phase(world.control().waits(), "the model was evaluated", options.run.timeout, "run.timeout");
  name_model(options, model);
  const ResolvedRun run(options, {Purpose::eval, world});
  if (run.options.eval.choices.empty()) {
    evaluate_sets(world, run);
  } else {
    evaluate_choices(world, run);
  }
  world.control().barrier();
  return static_cast<int>(ExitCode::finished);
}

}  // namespace tessera
