#include "golden/dump_schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tessera/schedule/formula.hpp"

namespace tessera::testing {

namespace {

// The dump's own words. They never change: where an enumerator gets another name, its word stays.
template <class E>
using Word = std::pair<E, const char*>;

constexpr Word<OperationKind> kKinds[] = {{OperationKind::load_input, "load"},
                                          {OperationKind::load, "load"},
                                          {OperationKind::store, "store"},
                                          {OperationKind::gather, "gather"},
                                          {OperationKind::cast, "gather"},
                                          {OperationKind::slice, "slice"},
                                          {OperationKind::forward, "forward"},
                                          {OperationKind::recompute, "recompute"},
                                          {OperationKind::backward, "backward"},
                                          {OperationKind::reduce_scatter, "reduce-scatter"},
                                          {OperationKind::all_reduce, "all-reduce"},
                                          {OperationKind::accumulate, "accumulate"},
                                          {OperationKind::norm, "norm"},
                                          {OperationKind::clip, "clip"},
                                          {OperationKind::update, "update"}};
constexpr Word<Queue> kQueues[] = {{Queue::compute, "q-compute"}, {Queue::gather, "q-gather"},
                                   {Queue::reduce, "q-reduce"},   {Queue::replica, "q-replica"},
                                   {Queue::load, "q-load"},       {Queue::store, "q-store"},
                                   {Queue::host, "q-host"}};
constexpr Word<Group> kGroups[] = {{Group::self, "self"},       {Group::world, "world"}, {Group::shard, "shard"},
                                   {Group::replica, "replica"}, {Group::node, "node"},   {Group::sub, "sub"}};
constexpr Word<RegionKind> kRegionWords[] = {
    {RegionKind::at_rest, "rest"}, {RegionKind::shared, "shared"}, {RegionKind::private_, "private"}};
constexpr Word<MemorySpace> kSpaces[] = {{MemorySpace::device, "device"}, {MemorySpace::host, "host"}};
constexpr Word<Category> kCategoryWords[] = {
    {Category::parameters, "parameters"},     {Category::gradients, "gradients"},
    {Category::optimizer_state, "optimizer"}, {Category::gathered_units, "gathered"},
    {Category::activations, "activations"},   {Category::communication, "communication"},
    {Category::workspace, "workspace"}};
constexpr Word<ValueKind> kValues[] = {{ValueKind::master, "master"},
                                       {ValueKind::parameter, "parameter"},
                                       {ValueKind::gradient, "gradient"},
                                       {ValueKind::moments, "moments"},
                                       {ValueKind::activation, "activation"},
                                       {ValueKind::activation_gradient, "activation-gradient"},
                                       {ValueKind::saved, "saved"},
                                       {ValueKind::scalar, "scalar"},
                                       {ValueKind::tokens, "tokens"},
                                       {ValueKind::scratch, "scratch"},
                                       {ValueKind::constant, "constant"},
                                       {ValueKind::snapshot, "snapshot"},
                                       {ValueKind::cache, "cache"},
                                       {ValueKind::logits, "logits"},
                                       {ValueKind::token_losses, "token-losses"},
                                       {ValueKind::wish, "wish"}};
constexpr Word<EdgeReason> kReasons[] = {
    {EdgeReason::prefetch, "prefetch"}, {EdgeReason::gather_limit, "limit"}, {EdgeReason::staging, "staging"}};
constexpr Word<SegmentRole> kRoles[] = {{SegmentRole::prologue, "prologue"}, {SegmentRole::micro_step, "micro-step"},
                                        {SegmentRole::update, "update"},     {SegmentRole::evaluation, "evaluation"},
                                        {SegmentRole::snapshot, "snapshot"}, {SegmentRole::prefill, "prefill"},
                                        {SegmentRole::decode, "decode"}};
constexpr Word<PartKind> kParts[] = {{PartKind::embedding, "embedding"},
                                     {PartKind::attention, "attention"},
                                     {PartKind::mlp, "mlp"},
                                     {PartKind::head, "head"}};
constexpr Word<DType> kTypes[] = {{DType::fp32, "fp32"}, {DType::bf16, "bf16"}, {DType::fp16, "fp16"},
                                  {DType::fp64, "fp64"}, {DType::int32, "i32"}, {DType::int64, "i64"},
                                  {DType::byte, "byte"}};
constexpr Word<DeviceKind> kDevices[] = {{DeviceKind::cpu, "cpu"}, {DeviceKind::cuda, "cuda"}};

template <class E, std::size_t N>
const char* word(const Word<E> (&words)[N], E value) {
  const auto found = std::ranges::find(words, value, &Word<E>::first);
  if (found == std::end(words)) throw std::logic_error("the golden dump has no word for an enumerator: add one");
  return found->second;
}

std::string words_of(const Groups& groups) {
  std::string out;
  for (const auto& [group, name] : kGroups) {
    if (groups.has(group)) out += (out.empty() ? "" : "+") + std::string(name);
  }
  return out.empty() ? "-" : out;
}

/// Numbers in the order of first use: number(id), and ids() from number to id.
template <class Key>
class Numbers {
 public:
  explicit Numbers(std::size_t count) : number_(count, -1) {}
  void use(Key id) {
    if (!id || number_[id] >= 0) return;
    number_[id] = static_cast<std::int32_t>(ids_.size());
    ids_.push_back(id);
  }
  std::int32_t operator()(Key id) const { return id ? number_[id] : -1; }
  const std::vector<Key>& ids() const { return ids_; }

 private:
  IndexedVector<Key, std::int32_t> number_;
  std::vector<Key> ids_;
};

class Dump {
 public:
  Dump(const StepSchedule& schedule, const MemoryPlan& plan)
      : s_(schedule), plan_(plan), value_(schedule.values.size()), storage_(schedule.storages.size()) {}

  std::string text() {
    number();
    model();
    shape();
    operations();
    values();
    storages();
    segments();
    memory();
    return std::move(out_);
  }

 private:
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... arguments) {
    out_ += fmt::format(format, std::forward<T>(arguments)...) + "\n";
  }

  void number() {
    for (const Operation& op : s_.operations) {
      for (const ValueId v : op.reads) value_.use(v);
      for (const ValueId v : op.writes) value_.use(v);
      for (const Update& u : op.updates) value_.use(u.before), value_.use(u.after);
    }
    for (const ValueId v : s_.values.ids()) value_.use(v);  // those of no operation
    for (const ValueId v : value_.ids()) storage_.use(s_.value(v).storage);
    for (const StorageId id : s_.storages.ids()) storage_.use(id);
  }
  std::vector<std::int32_t> numbers(const std::vector<ValueId>& ids) const {
    std::vector<std::int32_t> out;
    for (const ValueId id : ids) out.push_back(value_(id));
    return out;
  }
  std::vector<std::int32_t> sorted(const std::vector<ValueId>& ids) const {
    auto out = numbers(ids);
    std::ranges::sort(out);
    return out;
  }

  void model() {
    const ModelParts& m = s_.model;
    line("model batch {} sequence {} compute {} gradient {} on {}", m.batch, m.sequence, word(kTypes, m.compute),
         word(kTypes, m.gradient), word(kDevices, m.device));
    for (const ParameterTensor& t : m.tensors) line("tensor {} {} {}", t.elements, t.decays, t.is_table);
    for (const Part& p : m.parts) {
      line("part {} {} tensors {} {} constants {} scratch {} {} {}", word(kParts, p.kind), p.block, p.tensors,
           p.read_in_backward, p.constants, p.forward.scratch_bytes, p.backward.scratch_bytes,
           p.recompute.scratch_bytes);
      for (const SavedTensor& t : p.saved) line("  saved {} {}", word(kTypes, t.dtype), t.elements);
    }
    for (const Unit& unit : s_.layout.units) {
      line("unit {} of {} block {}", unit.elements, unit.padded, unit.is_block);
      for (const TensorPlace& t : unit.tensors) line("  {} at {}", t.tensor, t.offset);
    }
  }
  void shape() {
    line("{} world {} shard {} replica {} node {}", name_of(s_.policy.strategy), s_.grid.world(),
         s_.grid.size(Group::shard), s_.grid.size(Group::replica), s_.grid.ranks_per_node());
    line("compute {} reduce {} accumulation {} deterministic {}", word(kTypes, s_.policy.compute),
         word(kTypes, s_.policy.reduce), s_.policy.accumulation, s_.policy.deterministic);
    line("micro-batches inner {} each {}", word(kGroups, s_.micro_batches().inner), s_.policy.reduce_each_micro_step);
    line("limits {} {} ahead {} {}", s_.policy.limit_all_gathers, s_.gradient_limit, s_.policy.prefetch.forward,
         s_.policy.prefetch.backward);
  }
  void operations() {
    for (const OperationId i : s_.operations.ids()) {
      const Operation& op = s_.operations[i];
      std::string more;
      for (const Update& u : op.updates) more += fmt::format(" {}>{}", value_(u.before), value_(u.after));
      for (const Edge& e : op.after) more += fmt::format(" after {} {}", e.operation, word(kReasons, e.reason));
      line("op {} {} {} {} unit {} part {} reads {} writes {}{} wire {}", i, word(kKinds, op.kind),
           word(kQueues, op.queue), word(kGroups, op.group), op.unit, op.part, numbers(op.reads), numbers(op.writes),
           more, op.wire_bytes);
    }
  }
  void values() {
    for (const ValueId id : value_.ids()) {
      const Value& v = s_.value(id);
      line("value {} {} in {} unit {} part {} slot {} {} x {} split {} partial {} covers {} version {} maker {}",
           value_(id), word(kValues, v.kind), storage_(v.storage), v.unit, v.part, v.slot, word(kTypes, v.dtype()),
           v.elements, words_of(v.placement.shard), words_of(v.placement.partial), v.covers, v.version, v.maker);
    }
  }
  void storages() {
    for (const StorageId id : storage_.ids()) {
      const Storage& storage = s_.storage(id);
      line("storage {} {} {} {} {} carried {} live {} at {}", storage_(id), storage.bytes,
           word(kRegionWords, storage.region), word(kSpaces, storage.space), word(kCategoryWords, storage.category),
           storage.carried, storage.always_live, plan_.offset[id]);
    }
    line("workspace {} exchange {} staging {} messages {}", storage_(s_.reserved(Reserved::kernel_workspace)),
         storage_(s_.reserved(Reserved::exchange)), storage_(s_.reserved(Reserved::staging)),
         storage_(s_.reserved(Reserved::messages)));
  }
  void plays(const char* what, const std::vector<Play>& plays) {
    std::string list;
    for (const Play& play : plays) list += fmt::format(" {}:{}", play.segment, play.micro_step);
    line("play {}{}", what, list);
  }
  void segments() {
    for (const Segment& g : s_.segments) {
      line("segment {} {}+{} in {} out {}", word(kRoles, g.role), g.first, g.count, sorted(g.carried_in),
           sorted(g.carried_out));
    }
    plays("prologue", s_.prologue), plays("step", s_.step), plays("evaluation", s_.evaluation),
        plays("snapshot", s_.snapshot);
    if (s_.fresh) plays("finish", s_.finish), plays("fresh", {{s_.fresh, 0}});
    std::vector<std::int64_t> savings;
    for (const Saving& saving : s_.savings) savings.push_back(saving.bytes);
    std::ranges::sort(savings);
    line("sent {} formula {} savings {}", s_.wire_bytes_per_step(), formula_wire_bytes(s_), savings);
  }
  void memory() {
    for (const auto& [space, name] : kSpaces) {
      const SpacePlan& plan = plan_.at(space);
      for (const auto& [region, region_name] : kRegionWords)
        line("region {} {} {} of {}", name, region_name, plan_.region(space, region).bytes,
             plan_.region(space, region).lower_bound);
      for (const auto& [category, category_name] : kCategoryWords) {
        const auto c = static_cast<std::size_t>(category);
        line("peak {} {} {} own {}", name, category_name, plan.at_peak[c], plan.own_peak[c]);
      }
      line("peak {} at op {}", name, plan.peak_operation);
    }
    line("to allocate {}", limited_bytes(s_, plan_));
  }

  const StepSchedule& s_;
  const MemoryPlan& plan_;
  Numbers<ValueId> value_;
  Numbers<StorageId> storage_;
  std::string out_;
};

}  // namespace

std::string dump_schedule(const StepSchedule& schedule, const MemoryPlan& plan) { return Dump(schedule, plan).text(); }

}  // namespace tessera::testing
