#include "tessera/resolve/companions.hpp"

#include "tessera/checkpoint/manifest.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/files/fresh_output.hpp"
#include "tessera/resolve/model_tokenizer.hpp"
#include "tessera/resolve/run_checkpoints.hpp"
#include "tessera/text/choose_tokenizer.hpp"

namespace tessera {

void keep_companions(const Options& options, std::optional<DType> dtype) {
  const std::filesystem::path kept = run_folder(options) / kCompanionFolder;
  if (!companions_at(kept).empty()) return;
  std::filesystem::path from;
  if (!options.model.from.empty()) {
    const auto checkpoint = checkpoint_in(options.model.from);
    from = checkpoint ? companions_of(*checkpoint, read_manifest(*checkpoint)) : companions_at(options.model.from);
  }
  const std::string& resume = options.checkpoint.resume;
  if (from.empty() && resume != "none" && resume != "auto") {
    if (const auto checkpoint = checkpoint_in(resume)) from = companions_of(*checkpoint, read_manifest(*checkpoint));
  }
  // A folder that is there is taken for complete.
  std::error_code unseen;
  std::optional<FreshFolder> fresh;
  if (!std::filesystem::exists(kept, unseen)) fresh.emplace(kept);
  const std::filesystem::path& folder = fresh ? fresh->beside() : kept;
  copy_companions(from, folder, options.data.tokenizer);
  if (!options.data.tokenizer.empty() && !from.empty()) restate_token_ids(folder, from, tokenizer_name(options));
  if (dtype) keep_dtype(folder, *dtype);
  if (!options.data.chat_template.empty()) keep_chat_template(folder, options.data.chat_template);
  if (fresh && !std::filesystem::is_empty(folder, unseen)) fresh->finish();
}

}  // namespace tessera
