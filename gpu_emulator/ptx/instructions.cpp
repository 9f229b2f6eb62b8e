#include "gpu_emulator/ptx/instructions.hpp"

namespace ptx {

std::optional<Spec> find_instruction(std::string_view name) {
  static const Table all = [] {
    Table table;
    add_arithmetic(table);
    add_conversions(table);
    add_memory(table);
    add_warp_operations(table);
    return table;
  }();
  const auto found = all.find(std::string(name));
  if (found == all.end()) return std::nullopt;
  return found->second;
}

}  // namespace ptx
