#include "sweep/tokens.hpp"

#include <fmt/format.h>

#include "sweep/launcher.hpp"
#include "sweep/text_file.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/text/corpus.hpp"

namespace tessera {

std::filesystem::path tokens_for(const SweepFolder& folder, const SweepRow& row) {
  if (!wants_tokens(row)) return {};
  if (is_mixture(row.options.data))
    throw refuse("data.source", row.options.data.source)
        .because("the row's command reads one file of tokens, and a mixture is drawn by weights")
        .use("a single source");
  const Architecture architecture = resolve_architecture(row.options.model);
  const auto corpus = open_corpus(row.options, architecture.vocab, {.threads = allowed_cores(), .say = {}, .stop = {}});
  const std::filesystem::path data = folder.path() / "data";
  std::filesystem::path file = data / fmt::format("tokens-{:016x}.bin", fingerprint(*corpus));
  if (path_exists(file)) return file;
  make_folder(data);
  write_token_file(*corpus, file);
  return file;
}

}  // namespace tessera
