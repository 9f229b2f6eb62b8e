// The job of a preparation: its sources and options, and the key by which a cache knows it.
#include <fmt/ranges.h>
#include <xxhash.h>

#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/text/choose_tokenizer.hpp"
#include "text/prepare.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int kChatFormat = 4;  ///< as kPreparedFormat, of conversations
constexpr int kRowFormat = 1;   ///< of those in tables

}  // namespace

fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error);
  if (error) throw IoError("{}: the working folder is not known ({})", path.string(), error.message());
  return absolute.lexically_normal();
}

std::int64_t PrepareJob::source_bytes() const {
  return std::accumulate(sources.files.begin(), sources.files.end(), std::int64_t{0},
                         [](std::int64_t sum, const SourceFile& file) { return sum + file.state.size; });
}

bool PrepareJob::may_have_chats() const {
  const auto has_objects = [](const SourceFile& file) {
    return file.kind != SourceKind::text && file.kind != SourceKind::tokens;
  };
  return !chats.settings.empty() && std::ranges::any_of(sources.files, has_objects);
}

std::string PrepareJob::key() const {
  std::string parts;
  const auto add = [&](const std::string& text) {
    const auto size = static_cast<std::uint64_t>(text.size());
    parts.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  };
  add(fmt::format("{} {:016x} {} {} {}", kPreparedFormat, tokenizer->hash(), separator ? *separator : -1,
                  name_of(on_error), sources.files.size()));
  add(text_key);
  if (!begin.empty()) add(fmt::format("begin {}", fmt::join(begin, " ")));
  if (may_have_chats()) {
    add(fmt::format("chats {} {}", kChatFormat, fmt::join(tokenizer->special_ids(), " ")));
    add(chats.settings);
    if (std::ranges::any_of(sources.files, [](const SourceFile& file) { return file.kind == SourceKind::rows; }))
      add(fmt::format("rows {}", kRowFormat));
  }
  const fs::path here = absolute_path(".");
  for (const SourceFile& file : sources.files) {
    add((here / file.path).lexically_normal().string());
    add(fmt::format("{} {}", file.state.size, file.state.modified));
  }
  const XXH128_hash_t hash = ::XXH3_128bits(parts.data(), parts.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string PrepareJob::describe_tokenizer() const {
  std::string text = tokenizer->describe();
  if (begin.empty()) return text;
  text += ", ";
  for (const std::int32_t id : begin) text += tokenizer->bytes_of(id);
  return text + " before each document";
}

PrepareJob prepare_job(const Options& options, const std::string& option, const CorpusSettings& settings) {
  PrepareJob job;
  const DataOptions& data = options.data;
  job.sources = list_sources(option == "data.source" ? data.source : data.val_source, option);
  if (job.sources.is_only(SourceKind::tokens))
    throw refusal("{} = {} holds tokens already, so that there is nothing to prepare", option, job.sources.name)
        .use("text");
  examine_files(job.sources);
  job.tokenizer_name = tokenizer_name(options);
  job.tokenizer = open_named_tokenizer(job.tokenizer_name);
  job.begin = begin_of(*job.tokenizer, data.begin);
  job.text_key = data.text_key;
  job.chats = chat_form(data, *job.tokenizer, job.tokenizer_name);
  try {
    job.separator = separator_of(data, *job.tokenizer, job.is_bytes());
  } catch (const UsageError& error) {
    if (!job.may_have_chats()) throw;
    job.no_separator = error.what();  // conversations need none
  }
  job.on_error = data.on_error;
  job.settings = settings;
  return job;
}

}  // namespace tessera
