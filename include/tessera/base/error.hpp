#pragma once
// Errors with context. Bad input and outside faults are exceptions of the types below. A broken invariant is a
// TESSERA_ASSERT (always on, throws InternalError). A condition known at compile time is a static_assert. Messages are
// sentences (base/refuse.hpp makes those about bad input), with rank, unit, step, file where they matter.

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

/// Exit codes of the executable (docs/manual/troubleshooting.md). `main` maps an escaping Error to its code.
enum class ExitCode : int {
  finished = 0,
  internal = 1,        ///< a broken invariant: a bug in Tessera
  usage = 2,           ///< usage or configuration
  numerical = 3,       ///< NaN, divergence
  input_output = 4,    ///< files, disks
  communication = 5,   ///< a peer failed or did not answer
  does_not_fit = 6,    ///< the run needs more memory than there is
  corrupted = 7,       ///< memory or replicas hold other bits than were computed: a fault of the hardware
  stopped_early = 75,  ///< stopped with a valid checkpoint
};

/// Base of all errors: a human-readable message and the exit code of the process.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// An error with its type's exit code.
template <ExitCode kCode>
class CodedError : public Error {
 public:
  template <class... Args>
  explicit CodedError(fmt::format_string<Args...> text, Args&&... args)
      : Error(kCode, fmt::format(text, std::forward<Args>(args)...)) {}
};

/// Unknown, malformed or impossible options and inputs: found before any work.
struct UsageError : CodedError<ExitCode::usage> {
  using CodedError::CodedError;
};

/// Not-a-number, infinity or divergence in loss or gradients.
struct NumericalError : CodedError<ExitCode::numerical> {
  using CodedError::CodedError;
};

/// Bits of weights or optimizer state changed by themselves, or replicas computed different ones.
struct CorruptionError : CodedError<ExitCode::corrupted> {
  using CodedError::CodedError;
};

/// A file cannot be read or written.
struct IoError : CodedError<ExitCode::input_output> {
  using CodedError::CodedError;
};

/// A peer failed, did not arrive in time, or a communication library reported an error.
struct CommunicationError : CodedError<ExitCode::communication> {
  using CodedError::CodedError;
};

/// A peer did not arrive in time. The fault lies with it, or with a rank that it waits for.
struct TimeoutError : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// A GPU or its driver reported an error that no option explains.
struct DeviceError : CodedError<ExitCode::internal> {
  using CodedError::CodedError;
};

/// Another rank failed first and reported it. Carries that rank's exit code; is not printed again.
class PeerError : public Error {
 public:
  PeerError(ExitCode code, const std::string& message) : Error(code, message) {}
};

/// A broken invariant.
struct InternalError : CodedError<ExitCode::internal> {
  using CodedError::CodedError;
};

/// The exit code and the message of an exception.
struct Caught {
  ExitCode code;
  std::string what;
};
/// Describes the exception that is being handled.
Caught caught_error();

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line, const std::string& message);
}

}  // namespace tessera

/// Checks an invariant in every build; the message is fmt-formatted and says what was expected.
#define TESSERA_ASSERT(condition, ...)                                                                               \
  do {                                                                                                               \
    if (!(condition)) ::tessera::detail::assertion_failed(#condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)
