#pragma once
// PTX as the compiler wrote it, made ready to be played by warps (PTX ISA 9.0, as far as the project's kernels use it).

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ptx {

inline constexpr int kLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

/// A register of a warp, lane by lane. A value narrower than 64 bits lies in the low bits; the bits above mean
/// nothing. A predicate is 0 or 1.
using Row = std::array<std::uint64_t, kLanes>;
using Mask = std::uint32_t;

class Warp;
struct Instruction;
/// Plays an instruction for the lanes of the mask.
using Handler = void (*)(Warp&, const Instruction&, Mask);

/// The effect of an instruction on the flow of control.
enum class Control : std::uint8_t { none, branch, leave, block_barrier, meeting, unknown };

/// The classes in which reports count instructions.
enum class Kind : std::uint8_t { other, arithmetic, matrix, global, shared, local, synchronisation, count };

/// An instruction's name: how it is played, and how its operands are read.
struct Spec {
  Handler run = nullptr;
  Control control = Control::none;
  Kind kind = Kind::other;
  bool has_result = true;   ///< the first operand is written
  std::int8_t member = -1;  ///< meetings: which source names the lanes that take part; -1: all of the warp
  std::uint8_t size = 0;    ///< memory: bytes of an element
  std::uint8_t count = 1;   ///< memory: elements
  bool is_signed = false;   ///< memory: elements are sign-extended
};

struct Instruction {
  Spec spec;
  int guard = -1;  ///< row of the predicate; -1: none
  bool guard_negated = false;
  std::array<int, 4> to{};               ///< rows written
  std::array<int, 12> from{};            ///< rows read, vectors element by element; of addresses the base
  std::array<std::int64_t, 2> offset{};  ///< of the first and the second address
  int results = 1, sources = 0;
  int target = -1;         ///< of a branch
  int file = 0, line = 0;  ///< in the source
  std::string_view name;
};

/// Values that differ by thread or block, in the order of kSpecialNames.
enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  count
};

struct Parameter {
  std::int64_t offset = 0, bytes = 0;
};

/// A kernel. Addresses in shared memory start at kSharedBase, so that 0 is nobody's.
inline constexpr std::int64_t kSharedBase = 1024;
struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  int rows = 0;
  std::vector<std::pair<int, std::uint64_t>> constants;  ///< rows that hold the same in all lanes
  std::vector<std::pair<int, Special>> specials;
  std::vector<Parameter> parameters;
  std::int64_t parameter_bytes = 0;
  std::int64_t static_shared = 0;  ///< bytes; dynamic shared memory follows, 16-byte aligned
  std::int64_t local_bytes = 0;    ///< a thread
  std::int64_t most_threads = 1024;
  std::vector<std::string> files;  ///< by number, from 1 on
};

/// A module: its text cut into functions at once, each kernel made when it is first asked for. std::runtime_error with
/// the line, from either, for what is not understood. One thread at a time.
class Module {
 public:
  explicit Module(std::string_view text);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// The kernel of this name, which lives as long as the module; null if there is none.
  const Kernel* kernel(const std::string& name);

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// How the instruction of this name is played; nothing for a name that nobody wrote down.
std::optional<Spec> find_instruction(std::string_view name);

}  // namespace ptx
