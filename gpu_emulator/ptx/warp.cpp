#include "gpu_emulator/ptx/warp.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace ptx {

namespace {

constexpr std::byte kFreshLocal{0xff};

}  // namespace

Warp::Warp(Block& block, int number) : block_(block), number_(number) {
  const Launch& launch = block.launch();
  const Kernel& kernel = *launch.kernel;
  rows_.resize(static_cast<std::size_t>(kernel.rows));
  for (const auto& [row, value] : kernel.constants) rows_[static_cast<std::size_t>(row)].fill(value);
  const Extent b = launch.block, g = launch.grid, at = block.index();
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int64_t thread = std::int64_t{number} * kLanes + lane;
    if (thread < b.product()) alive_ |= Mask{1} << lane;
    const std::array<std::int64_t, static_cast<std::size_t>(Special::count)> values = {
        thread % b.x, thread / b.x % b.y, thread / b.x / b.y, b.x, b.y, b.z, at.x, at.y, at.z, g.x, g.y, g.z, lane};
    for (const auto& [row, special] : kernel.specials) {
      rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(lane)] =
          static_cast<std::uint64_t>(values[static_cast<std::size_t>(special)]);
    }
  }
  local_.assign(static_cast<std::size_t>(kernel.local_bytes * kLanes), kFreshLocal);
  for (auto& copies : copies_) copies.resize(1);
  groups_.push_back({0, alive_});
}

std::byte* Warp::local(int lane, std::int64_t address, std::int64_t bytes) {
  const std::int64_t size = block_.launch().kernel->local_bytes;
  if (address < 0 || address + bytes > size) {
    fault("an access beyond local memory (" + std::to_string(bytes) + " bytes at " + std::to_string(address) + " of " +
              std::to_string(size) + ")",
          lane);
  }
  return local_.data() + lane * size + address;
}

void Warp::fault(const std::string& what, int lane) const {
  const Kernel& kernel = *block_.launch().kernel;
  std::string place = "the start";
  if (current_ != nullptr) {
    const auto file = static_cast<std::size_t>(current_->file);
    place = (file < kernel.files.size() ? kernel.files[file] : "?") + ":" + std::to_string(current_->line) + " (" +
            std::string(current_->name) + ")";
  }
  const Extent b = block_.index();
  throw std::runtime_error("PTX: " + what + " at " + place + ", kernel " + kernel.name + ", block " +
                           std::to_string(b.x) + "," + std::to_string(b.y) + "," + std::to_string(b.z) + ", thread " +
                           std::to_string(number_ * kLanes + lane));
}

Mask Warp::guarded(const Instruction& i, Mask mask) {
  if (i.guard < 0) return mask;
  const Row& predicate = row(i.guard);
  Mask set = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    set |= static_cast<Mask>(predicate[static_cast<std::size_t>(lane)] & 1u) << lane;
  }
  return mask & (i.guard_negated ? ~set : set);
}

/// The group that goes next; -1 if all wait.
int Warp::choose() {
  std::minstd_rand* const random = block_.random();
  int best = -1, ready = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (group.waits || group.at_barrier) continue;
    ++ready;
    const bool better = best < 0 || (random != nullptr ? (*random)() % static_cast<unsigned>(ready) == 0
                                                       : group.pc < groups_[static_cast<std::size_t>(best)].pc);
    if (better) best = static_cast<int>(g);
  }
  return best;
}

bool Warp::run() {
  while (!groups_.empty()) {
    const int next = choose();
    if (next < 0) {
      for (const Group& group : groups_) {
        if (!group.waits) continue;
        current_ = &block_.launch().kernel->code[static_cast<std::size_t>(group.pc)];
        fault("lanes that wait in vain for others of their warp", std::countr_zero(group.mask));
      }
      return true;
    }
    step(static_cast<std::size_t>(next));
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& copies = copies_[static_cast<std::size_t>(lane)];
    if (copies.size() > 1 || !copies.back().empty()) fault("a cp.async that nobody waited for", lane);
  }
  return false;
}

void Warp::step(std::size_t at) {
  const Instruction& i = block_.launch().kernel->code[static_cast<std::size_t>(groups_[at].pc)];
  current_ = &i;
  const Mask mask = groups_[at].mask, active = guarded(i, mask);
  const auto kind = static_cast<std::size_t>(i.spec.kind);
  ++block_.counts().instructions[kind];
  block_.counts().lanes += std::popcount(active);
  switch (i.spec.control) {
    case Control::none:
      if (active != 0) i.spec.run(*this, i, active);
      ++groups_[at].pc;
      break;
    case Control::branch:
      if (active == mask) {
        groups_[at].pc = i.target;
      } else {
        ++groups_[at].pc;
        if (active == 0) break;
        groups_[at].mask = mask & ~active;
        groups_.push_back({i.target, active});
      }
      break;
    case Control::leave:
      alive_ &= ~active;
      ++groups_[at].pc;
      groups_[at].mask &= ~active;
      if (groups_[at].mask == 0) groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case Control::block_barrier:
      if (active != mask) fault("a barrier behind a predicate", std::countr_zero(mask));
      groups_[at].at_barrier = true;
      return;
    case Control::unknown:
      fault("an instruction that gpu_emulator/ptx does not know (its tables are short: add it)",
            std::countr_zero(mask));
    case Control::meeting:
      if (active != mask) {
        groups_.push_back({groups_[at].pc + 1, mask & ~active});
        groups_[at].mask = active;
      }
      if (active != 0) meet(at, i, active);
      break;
  }
  if (groups_.size() > 1 && block_.random() == nullptr) join_groups();
}

/// Plays an operation in which several lanes take part, if all of them have arrived.
void Warp::meet(std::size_t at, const Instruction& i, Mask active) {
  const int first = std::countr_zero(active);
  const Mask members =
      i.spec.member < 0
          ? kAllLanes
          : static_cast<Mask>(row(i.from[static_cast<std::size_t>(i.spec.member)])[static_cast<std::size_t>(first)]);
  if ((active & ~members) != 0) fault("a warp operation whose mask lacks the lane that calls it", first);
  if ((members & ~alive_) != 0) fault("a warp operation that waits for lanes that have left", first);
  const int pc = groups_[at].pc;
  Mask here = 0;
  for (const Group& group : groups_) here |= group.pc == pc && (group.waits || &group == &groups_[at]) ? group.mask : 0;
  if (here != members) {
    groups_[at].waits = true;
    return;
  }
  groups_[at].mask = members, groups_[at].pc = pc + 1;
  std::size_t kept = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (g == at || !(groups_[g].pc == pc && groups_[g].waits)) groups_[kept++] = groups_[g];
  }
  groups_.resize(kept);
  i.spec.run(*this, i, members);
}

void Warp::join_groups() {
  for (std::size_t a = 0; a < groups_.size(); ++a) {
    for (std::size_t b = groups_.size() - 1; b > a; --b) {
      if (groups_[a].pc != groups_[b].pc || groups_[a].at_barrier || groups_[b].at_barrier) continue;
      // Those that wait are asked again, as one.
      groups_[a].mask |= groups_[b].mask;
      groups_[a].waits = false;
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(b));
    }
  }
}

const Instruction* Warp::barrier() const {
  for (const Group& group : groups_) {
    if (group.pc != groups_.front().pc) return nullptr;
  }
  return groups_.empty() ? nullptr : &block_.launch().kernel->code[static_cast<std::size_t>(groups_.front().pc)];
}

void Warp::release() {
  const int pc = groups_.front().pc;
  groups_.assign(1, {pc + 1, alive_});
}

Block::Block(const Launch& launch, Counts& counts, std::minstd_rand* random)
    : launch_(launch),
      counts_(counts),
      random_(random),
      shared_((launch.kernel->static_shared + 15) / 16 * 16 + launch.dynamic_shared) {}

void Block::run(Extent index) {
  index_ = index;
  shared_.reset();
  warps_.clear();
  const auto count = static_cast<int>((launch_.block.product() + kLanes - 1) / kLanes);
  for (int w = 0; w < count; ++w) warps_.push_back(std::make_unique<Warp>(*this, w));
  std::vector<Warp*> order;
  for (const auto& warp : warps_) order.push_back(warp.get());
  while (true) {
    if (random_ != nullptr) std::shuffle(order.begin(), order.end(), *random_);
    std::size_t waiting = 0;
    for (Warp* warp : order) waiting += warp->run() ? 1 : 0;
    if (waiting == 0) return;
    pass_barrier();
  }
}

void Block::pass_barrier() {
  std::int64_t alive = 0;
  for (const auto& warp : warps_) alive += std::popcount(warp->alive());
  const Instruction* const where = warps_.front()->barrier();
  for (const auto& warp : warps_) {
    if (alive != launch_.block.product()) warp->fault("a barrier that some threads have left the kernel without", 0);
    if (where == nullptr || warp->barrier() != where) warp->fault("threads of a block at different barriers", 0);
  }
  shared_.pass_barrier();
  for (const auto& warp : warps_) warp->release();
}

namespace {

void check(const Launch& launch) {
  // kMostShared: of compute capability 8.0, the most that an emulated GPU has.
  constexpr std::int64_t kMostShared = 163 << 10, kMostStatic = 48 << 10, kMostThreads = 1024, kMostDepth = 64;
  constexpr std::int64_t kMostX = 0x7fffffff, kMostYZ = 65535;
  const Kernel& k = *launch.kernel;
  const std::int64_t threads = launch.block.product();
  std::string wrong;
  if (threads < 1 || threads > kMostThreads || launch.block.z > kMostDepth) wrong = "a block of so many threads";
  if (threads > k.most_threads) wrong = "more threads than __launch_bounds__";
  if (launch.grid.x > kMostX || launch.grid.y > kMostYZ || launch.grid.z > kMostYZ) wrong = "a grid of so many blocks";
  if (k.static_shared > kMostStatic) wrong = "more than 48 KB of shared arrays";
  if (k.static_shared + launch.dynamic_shared > kMostShared) wrong = "more shared memory than a block can have";
  if (!wrong.empty()) throw std::runtime_error("PTX: a launch with " + wrong + ", kernel " + k.name);
}

}  // namespace

void play(const Launch& launch, std::uint64_t order_seed) {
  check(launch);
  std::minstd_rand random(static_cast<unsigned>(order_seed));
  Counts counts;
  counts.launches = 1, counts.blocks = launch.grid.product();
  Block block(launch, counts, order_seed == 0 ? nullptr : &random);
  // With a seed blocks come in the order of an odd multiple modulo a power of two.
  std::int64_t range = 1;
  while (range < counts.blocks) range *= 2;
  const std::int64_t factor = order_seed == 0 ? 1 : 2 * (random() % range) + 1;
  for (std::int64_t i = 0; i < range; ++i) {
    const std::int64_t number = factor * i % range;
    if (number >= counts.blocks) continue;
    block.run({number % launch.grid.x, number / launch.grid.x % launch.grid.y, number / launch.grid.x / launch.grid.y});
  }
  note_counts(launch.kernel->name, counts);
}

}  // namespace ptx
