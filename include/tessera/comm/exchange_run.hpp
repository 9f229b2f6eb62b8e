#pragma once
// Describes what an exchange moves between the members of a group.

#include <cstdint>
#include <span>

namespace tessera {

/// Elements of an exchange: [source, source + elements) of what member `sender` sends become [target, target +
/// elements) of what member `receiver` receives. The two may be the same member.
struct ExchangeRun {
  std::int64_t sender = 0, receiver = 0;
  std::int64_t source = 0, target = 0;
  std::int64_t elements = 0;
};

/// Returns the elements that a member sends to others.
std::int64_t elements_sent(std::span<const ExchangeRun> runs, std::int64_t member);

/// Returns the most elements that any member sends, which is what an exchange counts as on all members.
std::int64_t most_elements_sent(std::span<const ExchangeRun> runs);

}  // namespace tessera
