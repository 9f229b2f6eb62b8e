#include "text/token_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/text/prepared.hpp"

namespace tessera {

namespace {

constexpr std::size_t kBuffer = std::size_t{4} << 20;
constexpr std::int64_t kLargestJournal = std::int64_t{1} << 20;

FileDescriptor open_for_update(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) fail_to("write", path);
  return file;
}

void cut_to(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t bytes) {
  if (::ftruncate(file.get(), bytes) != 0) fail_to("write", path);
}

/// Calls f(name, field) for what the journal keeps.
template <class State, class F>
void visit_fields(State& state, const F& f) {
  f("file", state.place.file);
  f("pieces", state.place.pieces);
  f("tokens", state.tokens);
  f("documents", state.documents);
  f("runs", state.runs);
  f("uncounted", state.uncounted);
  f("conversations", state.conversations);
  f("silent_conversations", state.silent_conversations);
  f("text_bytes", state.text_bytes);
  f("bad", state.bad);
  f("seconds", state.seconds);
  f("bad_places", state.bad_places);
}

template <class Id>
void put_ids(const std::vector<std::int32_t>& ids, std::vector<std::byte>& out) {
  const std::size_t before = out.size();
  out.resize(before + ids.size() * sizeof(Id));
  std::byte* to = out.data() + before;
  for (const std::int32_t id : ids) {
    const Id narrow = static_cast<Id>(id);
    TESSERA_ASSERT(id >= 0 && static_cast<std::int64_t>(narrow) == id, "token {} of {} bytes", id, sizeof(Id));
    std::memcpy(to, &narrow, sizeof narrow);
    to += sizeof narrow;
  }
}

}  // namespace

TokenWriter::TokenWriter(std::filesystem::path folder, const std::string& key, std::int64_t token_bytes)
    : folder_(std::move(folder)), key_(key), token_bytes_(token_bytes) {
  make_folder(folder_);
  const bool goes_on = read_journal();
  tokens_ = open_for_update(tokens_file());
  documents_ = open_for_update(documents_file());
  mask_ = open_for_update(mask_file());
  if (!goes_on) begin_anew();
  cut_to(tokens_, tokens_file(), kTokenHeader + state_.tokens * token_bytes_);
  cut_to(documents_, documents_file(), place_of_document(state_.documents));
  cut_to(mask_, mask_file(), place_of_run(state_.runs));
}

std::filesystem::path TokenWriter::tokens_file() const { return folder_ / kPreparedTokens; }
std::filesystem::path TokenWriter::documents_file() const { return folder_ / kPreparedDocuments; }
std::filesystem::path TokenWriter::mask_file() const { return folder_ / kPreparedMask; }

void TokenWriter::begin_anew() {
  state_ = {};
  ::unlink(journal_file().c_str());
}

/// Returns false where there is no journal of this key, or its files are shorter than it says.
bool TokenWriter::read_journal() try {
  const auto json = nlohmann::json::parse(read_text_file(journal_file(), kLargestJournal));
  if (json.at("key") != key_ || json.at("token_bytes") != token_bytes_) return false;
  visit_fields(state_, [&](const char* name, auto& field) { json.at(name).get_to(field); });
  return size_of_file(tokens_file()) >= kTokenHeader + state_.tokens * token_bytes_ &&
         size_of_file(documents_file()) >= place_of_document(state_.documents) &&
         (state_.runs == 0 || size_of_file(mask_file()) >= place_of_run(state_.runs));
} catch (const nlohmann::json::exception&) {
  return false;
} catch (const UsageError&) {  // there is none
  return false;
} catch (const IoError&) {
  return false;
}

std::int64_t TokenWriter::written_tokens() const {
  return state_.tokens - static_cast<std::int64_t>(token_buffer_.size()) / token_bytes_;
}

void TokenWriter::append(const EncodedPiece& piece) {
  if (token_bytes_ == 2) {
    put_ids<std::uint16_t>(piece.tokens.ids, token_buffer_);
  } else {
    put_ids<std::uint32_t>(piece.tokens.ids, token_buffer_);
  }
  for (const std::int64_t end : piece.tokens.ends) end_buffer_.push_back(state_.tokens + end);
  for (const TokenRun& run : piece.tokens.uncounted) {
    run_buffer_.push_back({state_.tokens + run.begin, state_.tokens + run.end});
    state_.uncounted += run.end - run.begin;
  }
  state_.conversations += piece.tokens.conversations;
  state_.silent_conversations += piece.tokens.silent_conversations;
  state_.runs += std::ssize(piece.tokens.uncounted);
  state_.tokens += std::ssize(piece.tokens.ids);
  state_.documents += std::ssize(piece.tokens.ends);
  state_.text_bytes += piece.tokens.text_bytes;
  state_.place = piece.after;
  if (token_buffer_.size() + 8 * end_buffer_.size() + sizeof(TokenRun) * run_buffer_.size() >= kBuffer) write_buffers();
}

void TokenWriter::write_buffers() {
  write_at(tokens_, tokens_file(), kTokenHeader + written_tokens() * token_bytes_, token_buffer_.data(),
           std::ssize(token_buffer_));
  const std::int64_t first = state_.documents - std::ssize(end_buffer_);
  write_at(documents_, documents_file(), place_of_document(first), end_buffer_.data(), 8 * std::ssize(end_buffer_));
  write_at(mask_, mask_file(), place_of_run(state_.runs - std::ssize(run_buffer_)), run_buffer_.data(),
           static_cast<std::int64_t>(sizeof(TokenRun)) * std::ssize(run_buffer_));
  token_buffer_.clear();
  end_buffer_.clear();
  run_buffer_.clear();
}

void TokenWriter::commit() {
  write_buffers();
  sync_file(tokens_, tokens_file());
  sync_file(documents_, documents_file());
  sync_file(mask_, mask_file());
  nlohmann::ordered_json journal = {{"key", key_}, {"token_bytes", token_bytes_}};
  visit_fields(state_, [&](const char* name, const auto& field) { journal[name] = field; });
  using Handler = nlohmann::ordered_json::error_handler_t;
  write_text_atomically(journal_file(), journal.dump(1, ' ', false, Handler::replace) + "\n");
}

void TokenWriter::finish(TokenHeader kind) {
  const auto header = token_header(kind, state_.tokens, token_bytes_);
  write_at(tokens_, tokens_file(), 0, header.data(), kTokenHeader);
  DocumentHeader index;
  index.documents = static_cast<std::uint64_t>(state_.documents);
  index.uncounted_runs = static_cast<std::uint64_t>(state_.runs);
  index.conversations = static_cast<std::uint64_t>(state_.conversations);
  index.silent_conversations = static_cast<std::uint64_t>(state_.silent_conversations);
  write_at(documents_, documents_file(), 0, &index, sizeof index);
  MaskHeader mask;
  mask.runs = static_cast<std::uint64_t>(state_.runs);
  write_at(mask_, mask_file(), 0, &mask, sizeof mask);
  commit();
  if (state_.runs == 0) ::unlink(mask_file().c_str());
}

}  // namespace tessera
