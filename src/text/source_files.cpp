#include "text/source_files.hpp"

#include <fmt/ranges.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/value_text.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/text/prepared.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kAllowed =
    "synthetic, or files, folders and globs of .txt, .json, .jsonl (also .gz and .zst) and .parquet, or of .bin";

struct FileType {
  SourceKind kind;
  Compression compression;
};

/// Returns the ending of a name, in lower case: systems that do not tell case apart write .TXT.
std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending;
}

/// Takes the ending of a compressed file away.
Compression take_compression(fs::path& path) {
  const std::string last = ending_of(path);
  const Compression compression = last == ".gz"    ? Compression::gzip
                                  : last == ".zst" ? Compression::zstd
                                                   : Compression::none;
  if (compression != Compression::none) path = path.stem();
  return compression;
}

std::optional<FileType> type_of(fs::path path) {
  const Compression compression = take_compression(path);
  const std::string kind = ending_of(path);
  if (kind == ".bin" && compression == Compression::none) return FileType{SourceKind::tokens, compression};
  if (kind == ".parquet" && compression == Compression::none) return FileType{SourceKind::rows, compression};
  if (kind == ".txt") return FileType{SourceKind::text, compression};
  if (kind == ".json") return FileType{SourceKind::json, compression};
  if (kind == ".jsonl" || kind == ".ndjson") return FileType{SourceKind::json_lines, compression};
  return std::nullopt;
}

/// Says how a file of another kind becomes one that is read; empty if that is not known.
std::string_view advice_on(fs::path path) {
  take_compression(path);
  const std::string kind = ending_of(path);
  if (kind == ".parquet") return "Unpack it first. Parquet is compressed inside";
  for (const char* table : {".arrow", ".csv", ".tsv"}) {
    if (kind == table)
      return "Write it as .parquet or .jsonl first, with Python's pandas: read_feather or read_csv, and then "
             "to_parquet(NEW) or to_json(NEW, orient='records', lines=True)";
  }
  for (const char* packed : {".xz", ".bz2", ".lz4", ".zip", ".tar", ".tgz", ".7z", ".rar"}) {
    if (kind == packed) return "Unpack it first. Of compressed texts .gz and .zst are read";
  }
  return {};
}

/// Names of what is left out, by the reason.
using LeftOut = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Returns "hidden: 1 (.git); of unknown kind: 10 (a.md, b.csv, c.csv and 7 more)".
std::string describe(LeftOut left_out) {
  constexpr std::size_t most = 3;
  std::string text;
  for (auto& [reason, names] : left_out) {
    std::ranges::sort(names);
    const std::size_t shown_names = std::min(most, names.size());
    text += fmt::format("{}{}: {} ({}", text.empty() ? "" : "; ", reason, names.size(),
                        fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown_names), ", "));
    text += names.size() > most ? fmt::format(" and {} more)", names.size() - most) : ")";
  }
  return text;
}

/// The files that are found, and what is left out.
struct Found {
  std::vector<SourceFile> files;
  LeftOut left_out;
};

constexpr std::string_view kUnknown = "of unknown kind";

/// Returns the first advice on files of unknown kind.
std::string_view advice_on(const LeftOut& left_out) {
  const auto unknown = left_out.find(kUnknown);
  if (unknown == left_out.end()) return {};
  for (const std::string& name : unknown->second) {
    if (const std::string_view advice = advice_on(fs::path(name)); !advice.empty()) return advice;
  }
  return {};
}

void add_file(const fs::path& path, FileType type, Found& out) {
  out.files.push_back({.path = path, .kind = type.kind, .compression = type.compression, .state = {}});
}

/// Returns whether nobody means a file or folder when its folder is named: copies of editors and of notebooks, git's
/// own files, and what macOS adds to archives.
bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(".") || name == "__MACOSX";
}

/// Adds one entry of a folder. Links to files are followed; links to folders are not, as they may lead in circles.
void add_entry(const fs::directory_entry& entry, const fs::path& folder, Found& out) {
  const fs::path& path = entry.path();
  const auto type = type_of(path);
  const bool has_text = type && type->kind != SourceKind::tokens;
  const auto leave_out = [&](std::string_view why) {
    out.left_out[std::string(why)].push_back(shown(path.lexically_relative(folder).generic_string()));
  };
  if (is_hidden(path)) return leave_out("hidden");
  std::error_code error;
  const fs::file_status status = entry.status(error);
  if (status.type() == fs::file_type::regular) {
    if (has_text) return add_file(path, *type, out);
    leave_out(type ? "tokens" : kUnknown);
  } else if (status.type() == fs::file_type::directory) {
    if (entry.is_symlink(error)) leave_out("a link to a folder");
  } else if (has_text && status.type() == fs::file_type::not_found) {
    throw IoError("{} is a link to nothing. Remove it, or put the file there.", path.string());
  } else if (has_text && error) {
    throw IoError("{} cannot be examined ({})", path.string(), error.message());
  } else if (has_text) {
    leave_out("not a file");
  }
}

/// Returns the kind of folder that Tessera, or an export to Hugging Face, wrote: its text is not a corpus. Nothing for
/// any other folder.
std::optional<std::string_view> written_as(const fs::path& folder) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return fs::exists(folder / name, error);
  };
  if (has("config.ini") && (has("status.json") || has("metrics.h5") || has("owner.json"))) return "a run";
  if (has(kPreparedInfo.data()) && has(kPreparedTokens.data())) return "a prepared corpus";
  if (has("config.json") && (has("model.safetensors") || has("model.safetensors.index.json"))) return "a model";
  return std::nullopt;
}

/// Lists all text below `folder`, which a glob matched or which was named. IoError for unreadable entries, so that no
/// part of a corpus goes missing unnoticed.
void add_folder(const fs::path& folder, bool is_match, Found& out) {
  const auto before = out.files.size();
  try {
    for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator(); ++at) {
      add_entry(*at, folder, out);
      if (!at->is_directory() || at->is_symlink()) continue;
      const bool hidden = is_hidden(at->path());
      const auto kind = hidden ? std::nullopt : written_as(at->path());
      if (hidden || kind) at.disable_recursion_pending();
      if (kind)
        out.left_out[std::string(*kind)].push_back(shown(at->path().lexically_relative(folder).generic_string()));
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError("{} cannot be listed ({})", folder.string(), error.code().message());
  }
  const auto bytes_of_path = [](const SourceFile& file) { return file.path.generic_string(); };
  std::sort(out.files.begin() + static_cast<std::ptrdiff_t>(before), out.files.end(),
            [&](const auto& a, const auto& b) { return bytes_of_path(a) < bytes_of_path(b); });
  if (out.files.size() > before) return;
  if (is_match) return out.left_out["a folder without text"].push_back(shown(folder.string()));
  auto refused = refusal("{} has no .txt, .json, .jsonl or .parquet file in it or below it{}", folder.string(),
                         out.left_out.empty() ? "" : "; left out are " + describe(out.left_out));
  if (const auto advice = advice_on(out.left_out); !advice.empty()) throw refused.hint("{}", advice);
  throw refused.use("a folder of text").hint("Name .bin files one by one or by a glob");
}

/// Returns the paths that match, in the order of their bytes.
std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): called before there are other threads, which do not change the environment
  const int code = ::glob(
      pattern.c_str(), GLOB_NOSORT, [](const char*, int why) { return why == ENOENT ? 0 : 1; }, &found);
  std::vector<std::string> paths;
  if (code == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code != 0 && code != GLOB_NOMATCH)
    throw IoError("{} cannot be listed ({})", pattern,
                  code == GLOB_NOSPACE ? "out of memory" : "a folder is unreadable");
  std::ranges::sort(paths);
  return paths;
}

/// Adds what one path, which exists, names. A match of a glob may be of an unknown kind.
void add_path(const fs::path& path, std::string_view option, bool is_match, Found& out) {
  std::error_code error;
  if (fs::is_directory(path, error)) return add_folder(path, is_match, out);
  if (const auto type = type_of(path)) return add_file(path, *type, out);
  if (is_match) return out.left_out[std::string(kUnknown)].push_back(shown(path.string()));
  auto refused = refusal("{} = {} is a file of unknown kind", option, path.string());
  if (const auto advice = advice_on(path); !advice.empty()) throw refused.hint("{}", advice);
  throw refused.use("{}", kAllowed);
}

void add_item(const std::string& item, std::string_view option, Found& out) {
  std::error_code error;
  const auto before = out.files.size();
  if (fs::exists(item, error)) return add_path(item, option, false, out);
  if (item.find_first_of("*?[") == std::string::npos)
    throw refuse(option, item).because("there is no such file or folder").use("{}", kAllowed);
  for (const std::string& path : matches_of(item)) add_path(path, option, true, out);
  if (out.files.size() > before) return;
  throw refuse(option, item)
      .because("nothing matches{}", out.left_out.empty() ? "" : " but " + describe(out.left_out))
      .use("{}", kAllowed);
}

std::vector<std::string> paths_of(const std::string& given) {
  std::error_code error;
  if (given.find(',') == std::string::npos || fs::exists(given, error)) return {given};
  std::vector<std::string> paths;
  for (const std::string_view item : items_of(given)) paths.emplace_back(trimmed(item));
  return paths;
}

void require_one_sort(const SourceList& list, std::string_view option) {
  const auto is_tokens = [](const SourceFile& file) { return file.kind == SourceKind::tokens; };
  const auto tokens = std::ranges::find_if(list.files, is_tokens);
  const auto text = std::ranges::find_if_not(list.files, is_tokens);
  if (tokens == list.files.end() || text == list.files.end()) return;
  throw refuse(option, list.name)
      .because("{} holds tokens and {} holds text, which are not mixed", tokens->path.string(), text->path.string())
      .use("one or the other");
}

}  // namespace

bool SourceList::is_only(SourceKind kind) const {
  return std::ranges::all_of(
      files, [=](const SourceFile& file) { return file.kind == kind && file.compression == Compression::none; });
}

SourceList list_sources(const std::string& given, std::string_view option) {
  Found found;
  for (const std::string& item : paths_of(given)) {
    if (item.empty()) throw refuse(option, given).because("an empty name is in the list").use("{}", kAllowed);
    add_item(item, option, found);
  }
  SourceList list{.name = given, .files = std::move(found.files), .skipped = describe(found.left_out)};
  require_one_sort(list, option);
  return list;
}

FileState state_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) throw IoError("{} cannot be examined ({})", file.string(), last_error());
  return {status.st_size, std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void require_unchanged(const SourceFile& file) {
  if (state_of(file.path) == file.state) return;
  throw IoError("{} changed while it was read: its size or time differ from the start's. Let it rest, and try again.",
                file.path.string());
}

void examine_files(SourceList& list) {
  for (SourceFile& file : list.files) file.state = state_of(file.path);
}

}  // namespace tessera
