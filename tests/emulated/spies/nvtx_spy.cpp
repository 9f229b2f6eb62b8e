// A tool in the eyes of NVTX's headers (NVTX_INJECTION64_PATH). It writes the ranges that are opened and closed to the
// file that NVTX_SPY_FILE names. Each takes a line, "thread > name" and "thread <".

#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

void write_line(const std::string& text) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  static const int file = open(std::getenv("NVTX_SPY_FILE"), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const std::string line = std::to_string(gettid()) + " " + text + "\n";
  if (write(file, line.data(), line.size()) < 0) std::abort();
}

int push(const char* name) {
  write_line(std::string("> ") + name);
  return 0;
}

int pop() {
  write_line("<");
  return 0;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for it
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) return 0;
  if (size <= NVTX_CBID_CORE_RangePop) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}
