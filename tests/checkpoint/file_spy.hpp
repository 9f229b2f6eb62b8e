#pragma once
// Watches a process's calls on files, and lets them fail or end the process. Linked into a test binary it is controlled
// by the functions below; preloaded into the executable (tests/cli) by two variables of the environment:
//
//   FILE_SPY_LOG=FILE                           a line per call: "fsync PATH", "rename FROM TO", ...
//   FILE_SPY_RULES=CALL,PART,WHAT,FROM,TO;...   calls number FROM to TO (of those whose path holds PART, from 0)
//                                               fail with errno WHAT; -1: they do nothing and return 0; -9: SIGKILL;
//                                               -2: they take 40 ms longer
//
// Calls: open flock fsync rename write pwrite unlink (unlinkat too). Those past the page cache: "pwrite PATH direct",
// "open PATH direct".

#include <string>
#include <vector>

namespace file_spy {

constexpr int kReturnsZero = -1, kDelays = -2, kKills = -9, kDelayMicroseconds = 40000, kNoEnd = 1 << 30;

/// From now on calls are remembered; forgets all rules.
void start();
/// Calls since start(): "rename FROM TO". Forgets all rules.
std::vector<std::string> stop();
/// An empty call stands for every one but open.
void rule(const std::string& call, const std::string& part, int what, int from = 0, int to = kNoEnd);

}  // namespace file_spy
