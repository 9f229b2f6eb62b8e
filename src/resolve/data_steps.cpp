// The steps that decide how data are read, and open them.
#include <algorithm>

#include "resolve/steps.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/resolve/model_tokenizer.hpp"
#include "tessera/text/choose_tokenizer.hpp"

namespace tessera {

namespace {

bool evaluates_text(const Options& options) {
  if (!options.eval.choices.empty()) return false;
  if (options.data.val_source.empty())
    return options.data.source != "synthetic" && !holds_tokens(options, "data.source");
  return std::ranges::any_of(validation_sources(options.data.val_source), [&](const ValidationSource& set) {
    Options one = options;
    one.data.val_source = set.source;
    return !holds_tokens(one, "data.val_source");
  });
}

/// For text, a training run's tokenizer is as given, else that of the run whose weights it starts from. Rank 0 decides.
void find_tokenizer(ResolvedRun& run, const ResolveSite& site) {
  std::string& tokenizer = run.options.data.tokenizer;
  if (site.purpose == Purpose::eval) {
    if (evaluates_text(run.options)) tokenizer = tokenizer_name_of(run.options, *run.weights);
    return;
  }
  if (!tokenizer.empty() || run.weights->checkpoint() == nullptr) return;
  if (site.ranks->rank() == 0 && run.options.data.source != "synthetic" && !holds_tokens(run.options, "data.source"))
    tokenizer = tokenizer_of_run(*run.weights);
  tokenizer = site.ranks->control().broadcast(tokenizer);
}

}  // namespace

/// auto becomes what the tokenizer of the text puts before a document. Token files say nothing of theirs.
void find_reading(ResolvedRun& run, const ResolveSite& site) {
  find_tokenizer(run, site);
  std::string& begin = run.options.data.begin;
  if (begin != "auto") return;
  const auto reads_text = [&] {
    const bool trains = run.options.data.source != "synthetic" && !holds_tokens(run.options, "data.source");
    return trains || evaluates_text(run.options);
  };
  if (site.ranks->rank() == 0 && reads_text()) begin = begin_name(*open_named_tokenizer(tokenizer_name(run.options)));
  begin = site.ranks->control().broadcast(begin);
}

/// A completion answers its own prompt, and should not see those before it.
void decide_documents(ResolvedRun& run, const ResolveSite& site) {
  DataOptions& data = run.options.data;
  require_documents_apart(data);
  if (packs_documents(data)) data.document_mask = Tristate::yes;
  if (data.document_mask != Tristate::automatic || !run.options.eval.choices.empty()) return;
  bool has_prompts = false;
  open_on_all(*site.ranks, run.options, site.stop, [&](const CorpusSettings& settings) {
    std::vector<NamedSource> corpora;
    if (site.purpose == Purpose::eval) corpora = open_validation(run.options, run.architecture.vocab, settings);
    if (corpora.empty()) corpora = open_sources(run.options, run.architecture.vocab, settings);
    const auto is_of_answers = [](const NamedSource& one) {
      return one.tokens->masks_loss() || one.tokens->counted_share().conversations > 0;
    };
    has_prompts = std::ranges::any_of(corpora, is_of_answers);
    if (has_prompts && site.purpose == Purpose::eval && !std::ranges::all_of(corpora, is_of_answers)) {
      throw refusal(
          "data.document_mask = auto is true for sets with prompts or conversations, and false for the others")
          .hint("Evaluate them apart, or give data.document_mask");
    }
  });
  data.document_mask = has_prompts ? Tristate::yes : Tristate::no;
}

void open_data(ResolvedRun& run, const ResolveSite& site) {
  open_on_all(*site.ranks, run.options, site.stop, [&](const CorpusSettings& settings) {
    run.data = std::make_unique<Dataset>(
        open_dataset(run.options, run.architecture.vocab, run.options.train.seq_len, settings));
  });
  DataOptions& data = run.options.data;
  if (tells_borders(run.options)) data.most_documents = std::max(data.most_documents, run.data->most_documents());
  if (data.token_bytes == TokenBytes::automatic && reads_raw_tokens(run.options)) data.token_bytes = TokenBytes::two;
  if (site.ranks->rank() != 0) return;
  const auto has_chats = [](const ValidationSet& set) { return set.source->counted_share().conversations > 0; };
  const bool any_chats =
      run.data->source().counted_share().conversations > 0 || std::ranges::any_of(run.data->validation(), has_chats);
  for (const std::string& said : {shared_validation(run.options), idle_chat_options(run.options, any_chats)})
    if (!said.empty()) Log(0, 1).warn(said);
}

}  // namespace tessera
