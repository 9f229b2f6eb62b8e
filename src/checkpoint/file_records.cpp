#include "checkpoint/file_records.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/checkpoint/manifest.hpp"

namespace tessera {

using Json = nlohmann::ordered_json;

std::string hex_of(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

Json file_json(const FileRecord& file) {
  Json json = {{"name", file.name}, {"bytes", file.bytes}, {"block_bytes", file.block_bytes}};
  if (file.is_shard()) {
    Json offsets = Json::object();
    for (const StateKind kind : kinds_of(file.content))
      offsets[std::string(name_of(kind))] = file.offsets[static_cast<std::size_t>(kind)];
    json["offsets"] = offsets;
    Json runs = Json::array();
    for (const ElementRun& run : file.runs) runs.push_back({run.tensor, run.first, run.count});
    json["runs"] = runs;
  }
  Json blocks = Json::array();
  for (const std::uint64_t block : file.blocks) blocks.push_back(hex_of(block));
  json["xxh3"] = blocks;
  return json;
}

FileRecord read_file_record(const Fields& fields, StateContent content) {
  FileRecord file;
  file.content = content;
  file.name = fields.text("name");
  file.bytes = fields.count("bytes");
  file.block_bytes = fields.count("block_bytes");
  if (file.name.empty() || file.name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos ||
      file.name.starts_with(".")) {
    fields.refuse("name", "a plain file name inside the folder is needed");
  }
  if (file.block_bytes < 4096 || file.block_bytes > (64 << 20)) fields.refuse("block_bytes", "4 KiB to 64 MiB");
  for (const auto& block : fields.list("xxh3")) file.blocks.push_back(Fields::checksum(block, fields));
  const std::int64_t blocks = file.bytes / file.block_bytes + (file.bytes % file.block_bytes != 0 ? 1 : 0);
  if (static_cast<std::int64_t>(file.blocks.size()) != blocks)
    fields.refuse("xxh3", "one checksum per block is needed");
  if (!file.is_shard()) return file;
  for (const auto& run : fields.list("runs")) {
    if (!run.is_array() || run.size() != 3) fields.refuse("runs", "triples are needed");
    file.runs.push_back({Fields::count(run[0], "runs", fields), Fields::count(run[1], "runs", fields),
                         Fields::count(run[2], "runs", fields)});
  }
  const Fields offsets = fields.object("offsets");
  for (const StateKind kind : kinds_of(content))
    file.offsets[static_cast<std::size_t>(kind)] = offsets.count(std::string(name_of(kind)).c_str());
  return file;
}

void check_runs(const Manifest& manifest, const std::string& where) {
  std::vector<ElementRun> runs;
  for (const FileRecord& file : manifest.files) {
    std::int64_t elements = 0;
    for (const ElementRun& run : file.runs) {
      if (run.tensor >= static_cast<std::int64_t>(manifest.tensors.size()))
        throw IoError("{}: {} has a run of tensor {}, but there are {}", where, shown(file.name), run.tensor,
                      manifest.tensors.size());
      const std::int64_t size = manifest.tensors[static_cast<std::size_t>(run.tensor)].elements;
      if (run.first > size || run.count > size - run.first || run.count == 0)
        throw IoError("{}: {} has a run outside of tensor {}", where, shown(file.name),
                      shown(manifest.tensors[static_cast<std::size_t>(run.tensor)].name));
      elements += run.count;  // cannot overflow: below, a file's elements must fit its bytes
      if (elements > file.bytes / 4) throw IoError("{}: {} is too small for its runs", where, shown(file.name));
      runs.push_back(run);
    }
    if (!file.is_shard()) continue;
    for (const StateKind kind : kinds_of(file.content)) {
      const std::int64_t bytes = bytes_of(file.runs, kind, manifest.tensors);
      if (file.offsets[static_cast<std::size_t>(kind)] > file.bytes - bytes)
        throw IoError("{}: a dataset of {} reaches beyond the file's end", where, shown(file.name));
    }
  }
  std::ranges::sort(runs, {}, [](const ElementRun& run) { return std::pair(run.tensor, run.first); });
  std::size_t next = 0;
  for (std::size_t tensor = 0; tensor < manifest.tensors.size(); ++tensor) {
    std::int64_t done = 0;
    for (; next < runs.size() && runs[next].tensor == static_cast<std::int64_t>(tensor); ++next) {
      if (runs[next].first != done)
        throw IoError("{}: element {} of {} is {}", where, std::min(done, runs[next].first),
                      shown(manifest.tensors[tensor].name), runs[next].first > done ? "in no shard" : "in two shards");
      done += runs[next].count;
    }
    if (done != manifest.tensors[tensor].elements)
      throw IoError("{}: element {} of {} is in no shard", where, done, shown(manifest.tensors[tensor].name));
  }
}

std::string file_record_text(const FileRecord& record) { return file_json(record).dump(); }

FileRecord parse_file_record(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return read_file_record(Fields(json, "a file's record"), StateContent::full);
}

}  // namespace tessera
