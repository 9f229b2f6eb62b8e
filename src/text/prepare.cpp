#include "text/prepare.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/token_header.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/text/prepared.hpp"
#include "text/prepare_report.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(200);
/// Work that a kill may cost. The first commits come sooner, so that short preparations are resumed too.
constexpr std::chrono::duration<double> kFirstCommit(0.1), kCommitEvery(5);
constexpr std::size_t kBadKept = 5;
constexpr std::size_t kPathsKept = 1000;

void stop_if_asked(const PrepareJob& job) {
  const std::string why = job.settings.stop ? job.settings.stop() : "";
  if (why.empty()) return;
  throw Error(ExitCode::stopped_early,
              fmt::format("{} while {} was prepared. Start it again to go on from there.", why, job.sources.name));
}

/// Removes what was written so far; leftovers that cannot be removed do no harm.
void discard(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

void note_bad(const PrepareJob& job, const Encoded& tokens, WriteState& state) {
  for (const BadPlace& place : tokens.bad) {
    const SourceFile& file = job.sources.files[place.file];
    const char* const line = file.kind == SourceKind::rows ? ", row " : ":";
    const std::string at = place.line > 0 ? fmt::format("{}{}", line, place.line) : "";
    const std::string text = fmt::format("{}{}: {}", file.path.string(), at, place.why);
    if (place.effect == BadPlace::Effect::stops) throw UsageError("{}", text);
    if (place.effect == BadPlace::Effect::fails) throw IoError("{}", text);
    if (place.effect == BadPlace::Effect::ends_file)
      throw refusal("{}, and the rest of the file is lost with it", text)
          .hint("Correct it, or use a .jsonl file with one document per line");
    if (job.on_error == OnError::stop && place.effect != BadPlace::Effect::mended)
      throw refusal("{}", text)
          .hint("Correct it, or set data.on_error = skip, which counts such places, instead of stop");
    if (state.bad_places.size() < kBadKept) state.bad_places.push_back(text);
  }
  state.bad += tokens.bad_places;
}

/// A model learns nothing from a corpus that it only reads.
void require_counted(const PrepareJob& job, const TokenWriter& writer) {
  const CountedShare share = writer.state().counted();
  if (share.tokens > 0 || share.of_tokens == 0) return;
  const auto& bad = writer.state().bad_places;
  const std::string first = bad.empty() ? "" : fmt::format(": {}", bad[0]);
  discard(writer.folder());
  throw refusal("the loss counts none of the {} of {}{}", counted(share.of_tokens, "token"), job.sources.name, first)
      .hint("{}", share.conversations > 0
                      ? "It counts turns of the role assistant; data.chat_counts = all counts whole conversations"
                      : "It counts completions; write the texts to learn there");
}

/// Writes the tokens from where the writer stands to the end. The lock must be held.
void write_tokens(const PrepareJob& job, TokenWriter& writer, const CacheLock& lock, PrepareReport& report) {
  const auto start = Clock::now();
  const double before = writer.state().seconds;
  auto committed = start;
  auto patience = kFirstCommit;
  const PieceSettings pieces{.text_key = job.text_key, .piece = job.settings.piece};
  const EncodeSettings encoding{job.text_key, job.separator, job.begin, !job.is_bytes(), job.chats, job.no_separator};
  const auto commit = [&] {
    writer.state().seconds = before + seconds_since(start);
    lock.require_held();
    writer.commit();
    committed = Clock::now();
    patience = std::min(2 * patience, kCommitEvery);
  };
  try {
    encode_corpus(job.sources, *job.tokenizer, pieces, encoding, writer.state().place,
                  std::max(1, job.settings.threads), [&](EncodedPiece&& piece) {
                    note_bad(job, piece.tokens, writer.state());
                    writer.append(piece);
                    report.update(writer.state(), piece.taken);
                    stop_if_asked(job);
                    if (Clock::now() - committed >= patience) commit();
                  });
  } catch (const UsageError&) {  // text or options will differ at the next try
    discard(writer.folder());
    throw;
  } catch (...) {
    commit();
    throw;
  }
  commit();
  require_counted(job, writer);
  if (writer.state().tokens > 0) return;
  const auto& bad = writer.state().bad_places;
  const std::string first = bad.empty() ? "" : fmt::format(" ({} bad, first {})", writer.state().bad, bad[0]);
  discard(writer.folder());
  throw refusal("{} has nothing to train on", job.sources.name)
      .because("there is no text in {}{}", counted(static_cast<std::int64_t>(job.sources.files.size()), "file"), first);
}

void write_info(const PrepareJob& job, const WriteState& state, const fs::path& file) {
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min(kPathsKept, job.sources.files.size()); ++i)
    paths.push_back(job.sources.files[i].path.string());
  const double seconds = std::max(state.seconds, 1e-9);
  nlohmann::ordered_json info = {
      {"format", kPreparedFormat},
      {"source", job.sources.name},
      {"files", job.sources.files.size()},
      {"bytes", job.source_bytes()},
      {"paths", paths},
      {"tokenizer", job.tokenizer->describe()},
      {"tokenizer_path", job.is_bytes() ? "bytes" : absolute_path(job.tokenizer_name).string()},
      {"tokenizer_hash", fmt::format("{:016x}", job.tokenizer->hash())},
      {"vocab", job.tokenizer->vocab()},
      {"separator", nullptr},
      {"begin", job.begin},
      {"text_key", job.text_key},
      {"on_error", name_of(job.on_error)},
      {"documents", state.documents},
      {"uncounted_runs", state.runs},
      {"uncounted_tokens", state.uncounted},
      {"conversations", state.conversations},
      {"silent_conversations", state.silent_conversations},
      {"tokens", state.tokens},
      {"token_bytes", job.token_bytes()},
      {"text_bytes", state.text_bytes},
      {"bad_places", state.bad},
      {"first_bad_places", state.bad_places},
      {"seconds", state.seconds},
      {"tokens_per_second", static_cast<double>(state.tokens) / seconds},
      {"threads", job.settings.threads}};
  if (job.separator) info["separator"] = *job.separator;
  using Handler = nlohmann::ordered_json::error_handler_t;
  write_text_atomically(file, info.dump(1, ' ', false, Handler::replace) + "\n");
}

/// Returns whether a cache's entry is there, whole: its files have the sizes that info.json says.
bool is_complete(const fs::path& folder) try {
  const auto info = nlohmann::json::parse(read_text_file(folder / kPreparedInfo, std::int64_t{1} << 30));
  const auto tokens = info.at("tokens").get<std::int64_t>(), width = info.at("token_bytes").get<std::int64_t>();
  const auto documents = info.at("documents").get<std::int64_t>();
  const auto runs = info.at("uncounted_runs").get<std::int64_t>();
  return size_of_file(folder / kPreparedTokens) == kTokenHeader + tokens * width &&
         (runs == 0 || size_of_file(folder / kPreparedMask) == place_of_run(runs)) &&
         size_of_file(folder / kPreparedDocuments) == place_of_document(documents);
} catch (const nlohmann::json::exception&) {
  return false;
} catch (const Error&) {  // something is missing
  return false;
}

/// Removes an entry that is not whole, because another takes its place.
void remove_damaged(const PrepareJob& job, const fs::path& folder) {
  if (!path_exists(folder)) return;
  if (job.settings.say) job.settings.say(fmt::format("replaced   {}, which was damaged", folder.string()));
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) throw IoError("{} is damaged and cannot be removed ({}). Remove it.", folder.string(), error.message());
}

void prepare_and_publish(const PrepareJob& job, const fs::path& folder, const CacheLock& lock) {
  const fs::path beside = folder.string() + ".tmp";
  TokenWriter writer(beside, job.key(), job.token_bytes());
  PrepareReport report(job, folder.string(), writer.state());
  write_tokens(job, writer, lock, report);
  writer.finish(TokenHeader::wide);
  write_info(job, writer.state(), beside / kPreparedInfo);
  sync_folder(beside);
  lock.require_held();
  remove_damaged(job, folder);
  rename_file(beside, folder);
  sync_folder(folder.parent_path());
  ::unlink((folder / kJournal).c_str());
  report.finish(writer.state());
}

/// Calls `work` under the lock, unless `is_done` says that another process did it.
template <class IsDone, class Work>
void once(const PrepareJob& job, const fs::path& lock_file, const fs::path& where, IsDone is_done, Work work) {
  CacheLockSeeker seeker(lock_file, {});
  for (bool told = false;;) {
    if (is_done()) return;
    if (const auto lock = seeker.try_take()) {
      if (!is_done()) work(*lock);
      return;
    }
    if (!told && job.settings.say) {
      job.settings.say(fmt::format("waiting    for {}, which writes {}", seeker.holder(), where.string()));
    }
    told = true;
    stop_if_asked(job);
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace

fs::path prepared_folder(const PrepareJob& job, const fs::path& cache) {
  fs::path folder = cache / job.key();
  const auto is_done = [&] { return is_complete(folder); };
  if (is_done()) return folder;
  std::error_code error;
  fs::create_directories(cache, error);
  if (error) {
    throw IoError("cannot create folder {} ({}). Give data.cache or $TESSERA_CACHE one that can be written.",
                  cache.string(), error.message());
  }
  once(job, folder.string() + ".lock", folder, is_done,
       [&](const CacheLock& lock) { prepare_and_publish(job, folder, lock); });
  return folder;
}

void prepare_file(const PrepareJob& job, const fs::path& file) {
  const fs::path index = index_beside(file), mask = mask_beside(file), work = file.string() + ".tmp";
  const auto require_new = [&] {
    // (An index or a mask alone next to the work on it comes from a process that was killed between the renames.)
    for (const fs::path& path : {file, index, mask}) {
      if (path_exists(path) && (path == file || !path_exists(work)))
        throw refuse("data.output", file.string())
            .because("{} exists", path.string())
            .hint("Name a file that does not");
    }
  };
  require_new();
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!path_exists(folder))
    throw refuse("data.output", file.string())
        .because("the folder {} does not exist", folder.string())
        .hint("Make it first");
  once(
      job, file.string() + ".lock", file, [] { return false; },
      [&](const CacheLock& lock) {
        require_new();  // another process may have written it while this one waited
        TokenWriter writer(work, job.key(), job.token_bytes());
        PrepareReport report(job, file.string(), writer.state());
        write_tokens(job, writer, lock, report);
        const bool fits = writer.state().tokens <= std::numeric_limits<std::int32_t>::max();
        writer.finish(fits ? TokenHeader::llmc : TokenHeader::wide);
        lock.require_held();
        rename_file(writer.documents_file(), index);
        std::error_code error;
        if (writer.state().runs > 0)
          rename_file(writer.mask_file(), mask);
        else
          fs::remove(mask, error);  // of a killed process, whose text had prompts
        if (error) throw IoError("cannot remove {} ({})", mask.string(), error.message());
        rename_file(writer.tokens_file(), file);
        discard(work);
        report.finish(writer.state());
      });
}

}  // namespace tessera
