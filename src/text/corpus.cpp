#include "tessera/text/corpus.hpp"

#include <algorithm>
#include <set>

#include "tessera/base/environment.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/token_decorator.hpp"
#include "tessera/text/choose_tokenizer.hpp"
#include "tessera/text/prepared.hpp"
#include "text/prepare.hpp"
#include "text/source_files.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// A prepared corpus, which is named by what it was prepared from.
class PreparedTokens final : public TokenDecorator {
 public:
  PreparedTokens(const PrepareJob& job, const fs::path& folder)
      : TokenDecorator(with_mask(open_token_file(folder / kPreparedTokens), folder / kPreparedTokens)),
        name_(fmt::format("{} ({}, {})", job.sources.name,
                          counted(static_cast<std::int64_t>(job.sources.files.size()), "file"),
                          job.describe_tokenizer())),
        index_(folder / kPreparedDocuments) {}
  std::string describe() const override { return name_; }
  std::string place(std::int64_t first, std::int64_t count) const override {
    const DocumentIndex index(index_, size());  // rarely asked for
    return fmt::format("{}, documents {} to {}", name_, index.document_of(first) + 1,
                       index.document_of(first + count - 1) + 1);
  }

 private:
  std::string name_;
  fs::path index_;
};

/// A corpus that is not all that the user named.
class WithLeftOut final : public TokenDecorator {
 public:
  WithLeftOut(std::unique_ptr<TokenSource> tokens, std::string left_out)
      : TokenDecorator(std::move(tokens)), left_out_(std::move(left_out)) {}
  std::string skipped() const override { return left_out_; }

 private:
  std::string left_out_;
};

std::unique_ptr<TokenSource> open_token_files(const SourceList& list, bool documents, const RawTokens& raw) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  parts.reserve(list.files.size());
  for (const SourceFile& file : list.files) {
    auto tokens = open_tokens(file.path, raw);
    parts.push_back(documents ? with_documents(std::move(tokens), index_beside(file.path)) : std::move(tokens));
  }
  const std::string name = fmt::format("{} ({} token files)", list.name, parts.size());
  return join_sources(name, std::move(parts));
}

/// Whether text is read as the bytes that it is. Preparing it makes an index of its documents.
bool is_plain(const SourceList& list, const Options& options) {
  const std::string& separator = options.data.separator;
  return list.is_only(SourceKind::text) && (separator == "none" || separator == "auto") &&
         (options.data.begin == "none" || options.data.begin == "auto") && !has_document_mask(options.data) &&
         tokenizer_name(options) == "bytes";
}

std::unique_ptr<TokenSource> open_plain(const SourceList& list) {
  std::vector<fs::path> files;
  files.reserve(list.files.size());
  for (const SourceFile& file : list.files) files.push_back(file.path);
  return open_text_files(list.name, files);
}

const std::string& source_of(const Options& options, const std::string& option) {
  return option == "data.source" ? options.data.source : options.data.val_source;
}

std::unique_ptr<TokenSource> open_listed(const SourceList& list, const Options& options, const std::string& option,
                                         std::int64_t vocab, const CorpusSettings& settings) {
  const DataOptions& data = options.data;
  if (list.is_only(SourceKind::tokens)) {
    return open_token_files(list, has_document_mask(data), {data.token_bytes, vocab == kAnyVocabulary ? 0 : vocab});
  }
  if (option != "data.source" && data.tokenizer.empty() && options.model.from.empty() &&
      holds_tokens(options, "data.source")) {
    throw refusal("{} = {} is text, but the tokens of data.source = {} are of an unknown tokenizer", option, list.name,
                  data.source)
        .hint("Give data.tokenizer as bytes or a folder");
  }
  if (is_plain(list, options)) return open_plain(list);
  const PrepareJob job = prepare_job(options, option, settings);
  const fs::path folder = prepared_folder(job, cache_folder(options));
  auto tokens = std::make_unique<PreparedTokens>(job, folder);
  if (!has_document_mask(data)) return tokens;
  return with_documents(std::move(tokens), folder / kPreparedDocuments);
}

std::unique_ptr<TokenSource> open_source(const Options& options, const std::string& option, std::int64_t vocab,
                                         const CorpusSettings& settings) {
  const std::string& name = source_of(options, option);
  if (name == "synthetic") {
    if (option != "data.source")
      throw refuse(option, name)
          .because("synthetic text has no separate text for validation")
          .use("data.val_fraction to evaluate synthetic text");
    return synthetic_text(options.data.synthetic_tokens, vocab, options.data.seed);
  }
  const SourceList list = list_sources(name, option);
  auto tokens = open_listed(list, options, option, vocab, settings);
  if (list.skipped.empty()) return tokens;
  return std::make_unique<WithLeftOut>(std::move(tokens), list.skipped);
}

std::unique_ptr<TokenSource> open_checked(const Options& options, const std::string& option, std::int64_t vocab,
                                          const CorpusSettings& settings) {
  auto source = open_source(options, option, vocab, settings);
  check_vocabulary(*source, vocab);
  if (option == "data.source" && source->counted_share().tokens == 0)
    throw refusal("the loss counts no token of {}, so that there is nothing to train on", source->describe());
  return source;
}

/// Returns the files of an option, of each source of a mixture; nothing for synthetic text.
std::vector<SourceList> lists_of(const Options& options, const std::string& option) {
  std::vector<SourceList> lists;
  if (source_of(options, option) == "synthetic") return lists;
  if (option != "data.source") return {list_sources(options.data.val_source, option)};
  for (const TrainingSource& one : training_sources(options.data.source))
    lists.push_back(list_sources(one.source, option));
  return lists;
}

/// In a mixture, text needs the tokenizer that made the tokens of other sources.
void require_known_tokenizer(const Options& options) {
  if (!is_mixture(options.data) || !options.data.tokenizer.empty() || !options.model.from.empty()) return;
  const auto holds = [](const SourceList& list) { return list.is_only(SourceKind::tokens); };
  const std::vector<SourceList> lists = lists_of(options, "data.source");
  if (std::ranges::none_of(lists, holds) || std::ranges::all_of(lists, holds)) return;
  throw refuse("data.source", options.data.source)
      .because("{} is text, but the tokens of other sources are of an unknown tokenizer",
               std::ranges::find_if_not(lists, holds)->name)
      .hint("Give data.tokenizer as bytes or a folder");
}

}  // namespace

fs::path cache_folder(const Options& options) {
  if (!options.data.cache.empty()) return options.data.cache;
  if (const std::string named = variable("TESSERA_CACHE"); !named.empty()) return named;
  fs::path run = run_folder(options);
  if (run.filename().empty()) run = run.parent_path();  // "RUN/"
  return run.parent_path() / "cache";
}

bool holds_tokens(const Options& options, const std::string& option) {
  const std::vector<SourceList> lists = lists_of(options, option);
  return !lists.empty() &&
         std::ranges::all_of(lists, [](const SourceList& list) { return list.is_only(SourceKind::tokens); });
}

std::string left_out(const Options& options, const std::string& option) {
  return joined(lists_of(options, option), &SourceList::skipped, "; ");
}

bool reads_raw_tokens(const Options& options) {
  std::vector<SourceList> lists = lists_of(options, "data.source");
  for (const ValidationSource& set : validation_sources(options.data.val_source))
    lists.push_back(list_sources(set.source, "data.val_source"));
  return std::ranges::any_of(lists, [](const SourceList& list) {
    return std::ranges::any_of(list.files, [](const SourceFile& file) {
      return file.kind == SourceKind::tokens && !has_token_header(file.path);
    });
  });
}

bool is_read_directly(const Options& options, const std::string& option) {
  const std::string& name = source_of(options, option);
  if (name == "synthetic") return true;
  const SourceList list = list_sources(name, option);
  return list.is_only(SourceKind::tokens) || is_plain(list, options);
}

std::vector<Options> each_source(const Options& options) {
  std::vector<Options> each;
  for (const TrainingSource& one : training_sources(options.data.source)) {
    each.push_back(options);
    each.back().data.source = one.source;
  }
  return each;
}

std::vector<NamedSource> open_sources(const Options& options, std::int64_t vocab, const CorpusSettings& settings) {
  require_known_tokenizer(options);
  Options one = options;
  std::vector<NamedSource> opened;
  for (const TrainingSource& source : training_sources(options.data.source)) {
    one.data.source = source.source;
    opened.push_back({source.name, open_checked(one, "data.source", vocab, settings), source.share});
  }
  return opened;
}

std::unique_ptr<TokenSource> open_corpus(const Options& options, std::int64_t vocab, const CorpusSettings& settings) {
  return mix_sources(open_sources(options, vocab, settings)).train;
}

std::vector<NamedSource> open_validation(const Options& options, std::int64_t vocab, const CorpusSettings& settings) {
  std::vector<NamedSource> sets;
  Options one = options;
  for (const ValidationSource& set : validation_sources(options.data.val_source)) {
    one.data.val_source = set.source;
    sets.push_back({set.name, open_checked(one, "data.val_source", vocab, settings)});
  }
  return sets;
}

std::string shared_validation(const Options& options) {
  const auto real_path = [](const SourceFile& file) {
    std::error_code error;
    const fs::path path = fs::canonical(file.path, error);
    return error ? file.path : path;
  };
  std::set<fs::path> trained;
  for (const SourceList& list : lists_of(options, "data.source"))
    for (const SourceFile& file : list.files) trained.insert(real_path(file));
  for (const ValidationSource& set : validation_sources(options.data.val_source)) {
    for (const SourceFile& file : list_sources(set.source, "data.val_source").files) {
      if (!trained.contains(real_path(file))) continue;
      return fmt::format(
          "data.val_source{} has {}, which is in data.source as well. The model is trained on it, so its loss does not "
          "show how the model does on new text. Use other files, or data.val_fraction",
          set.name.empty() ? "" : ": " + set.name, file.path.string());
    }
  }
  return {};
}

std::string idle_chat_options(const Options& options, bool has_conversations) {
  constexpr std::array names{"data.chat_template", "data.chat_turns", "data.chat_counts"};
  const std::string given =
      joined(names, [&](auto name) { return !has_conversations && options.is_given(name) ? name : ""; });
  return given.empty() ? "" : "no conversation is in the text, so that these options have no effect: " + given;
}

Dataset open_dataset(const Options& options, std::int64_t vocab, std::int64_t seq_len, const CorpusSettings& settings) {
  DataSources sources = mix_sources(open_sources(options, vocab, settings));
  sources.validation = open_validation(options, vocab, settings);
  return {std::move(sources), options.data, vocab, seq_len};
}

fs::path prepare_in_cache(const Options& options, const std::string& option, const CorpusSettings& settings) {
  return prepared_folder(prepare_job(options, option, settings), cache_folder(options));
}

void prepare_output(const Options& options, const CorpusSettings& settings) {
  if (is_mixture(options.data)) {
    throw refuse("data.output", options.data.output)
        .because("one file cannot hold the sources of a mixture, which are drawn by weights")
        .use("the cache, or a command for each source");
  }
  prepare_file(prepare_job(each_source(options).front(), "data.source", settings), options.data.output);
}

}  // namespace tessera
