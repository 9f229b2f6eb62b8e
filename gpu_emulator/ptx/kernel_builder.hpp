#pragma once
// A function's statements to a kernel that warps can play.

#include <map>
#include <string>
#include <vector>

#include "gpu_emulator/ptx/module.hpp"
#include "gpu_emulator/ptx/text.hpp"

namespace ptx {

/// A function's statements as they stand in the module.
struct Body {
  Statement header;
  std::string name;
  std::vector<Variable> parameters;
  std::vector<Variable> results;
  const Statement* first = nullptr;  ///< behind its "{"
  const Statement* last = nullptr;   ///< its "}"
};

/// The names that all functions of a module see.
struct Globals {
  std::map<std::string, Body, std::less<>> functions;
  std::vector<Variable> shared;  ///< of the module, not of a function
  std::string dynamic_shared;    ///< the name of what the launch gives
};

/// A kernel from an entry's body. Functions that are called become part of it. std::runtime_error for what is not
/// understood.
Kernel build_kernel(const Globals& globals, const Body& body);

}  // namespace ptx
