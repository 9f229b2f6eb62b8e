// cuDNN's backend interface as far as we call it: descriptors that check what they are told, and plans that interpret
// the graph. Anything that the real library is not known to accept is refused.

#include "cuda/kernels/cudnn.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "gpu_emulator/libraries/cudnn/cudnn.hpp"
#include "gpu_emulator/libraries/cudnn/program.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"
#include "gpu_emulator/runtime/library_end.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using Life = emulator::LibraryEnd<struct CudnnLibrary>;
using emulator::Four;
using emulator::GraphMemory;
using emulator::GraphProgram;
using emulator::GraphStep;
using emulator::GraphTensor;
using tessera::cudnn::Attribute;
using tessera::cudnn::Data;
using tessera::cudnn::Kind;
using tessera::cudnn::Type;

constexpr int kSuccess = 0, kBadParameter = 2000, kNotSupported = 3000;
constexpr std::int64_t kSmallWorkspace = 256, kOfDocument = 128;
thread_local std::string last_error;
std::atomic<std::size_t> version = 92500;
std::atomic<int> calls_before_drift = -1;
std::atomic<int> deterministic_backwards = 0;

int refuse(int status, std::string reason) {
  last_error = std::move(reason);
  return status;
}

struct Value {
  int type;
  std::int64_t count;
  std::vector<std::byte> bytes;
};

struct Descriptor {
  Kind kind;
  bool finalized = false;
  std::map<Attribute, Value> values;
  std::shared_ptr<const GraphProgram> program;  ///< of a graph, a heuristic, an engine's configuration, a plan

  /// The value of an attribute of one element; empty where it was not set.
  template <class T>
  std::optional<T> one(Attribute name) const {
    const auto found = values.find(name);
    if (found == values.end() || found->second.count != 1 || found->second.bytes.size() != sizeof(T)) return {};
    T value;
    std::memcpy(&value, found->second.bytes.data(), sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> all(Attribute name) const {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<T> out(static_cast<std::size_t>(found->second.count));
    std::memcpy(out.data(), found->second.bytes.data(), found->second.bytes.size());
    return out;
  }
  /// A finalized descriptor of a kind, or null.
  const Descriptor* link(Attribute name, Kind wanted) const {
    const auto* other = static_cast<const Descriptor*>(one<void*>(name).value_or(nullptr));
    return other != nullptr && other->kind == wanted && other->finalized ? other : nullptr;
  }
};

std::size_t bytes_of(int type) {
  switch (static_cast<Type>(type)) {
    case Type::boolean:
    case Type::character:
      return 1;
    case Type::int64:
    case Type::handle:
    case Type::pointer:
    case Type::descriptor:
      return 8;
    default:
      return 4;
  }
}

Type type_of(Attribute name) {
  switch (name) {
    case Attribute::pointwise_mode:
      return Type::pointwise_mode;
    case Attribute::pointwise_precision:
    case Attribute::matmul_precision:
    case Attribute::reduction_precision:
    case Attribute::tensor_type:
      return Type::data_type;
    case Attribute::reduction_operator:
      return Type::reduction_operator;
    case Attribute::heuristic_mode:
      return Type::heuristic_mode;
    case Attribute::plan_handle:
    case Attribute::graph_handle:
      return Type::handle;
    case Attribute::tensor_is_virtual:
    case Attribute::tensor_is_by_value:
      return Type::boolean;
    case Attribute::pack_pointers:
    case Attribute::pack_workspace:
      return Type::pointer;
    case Attribute::pointwise_axis:
    case Attribute::tensor_alignment:
    case Attribute::tensor_dimensions:
    case Attribute::tensor_strides:
    case Attribute::tensor_id:
    case Attribute::pack_ids:
    case Attribute::plan_workspace:
      return Type::int64;
    default:
      return Type::descriptor;
  }
}

std::optional<GraphTensor> tensor_of(const Descriptor* d) {
  if (d == nullptr) return {};
  GraphTensor t;
  const auto sizes = d->all<std::int64_t>(Attribute::tensor_dimensions);
  const auto strides = d->all<std::int64_t>(Attribute::tensor_strides);
  if (sizes.size() != 4 || strides.size() != 4) return {};
  std::copy(sizes.begin(), sizes.end(), t.sizes.begin());
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  const auto type = d->one<Data>(Attribute::tensor_type);
  const auto id = d->one<std::int64_t>(Attribute::tensor_id),
             alignment = d->one<std::int64_t>(Attribute::tensor_alignment);
  if (!type || !id || *id == 0 || alignment.value_or(0) != 16) return {};
  t.type = *type, t.id = *id;
  t.is_virtual = d->one<bool>(Attribute::tensor_is_virtual).value_or(false);
  t.by_value = d->one<bool>(Attribute::tensor_is_by_value).value_or(false);
  if (d->values.contains(Attribute::tensor_ragged_offset)) {
    const auto offsets = tensor_of(d->link(Attribute::tensor_ragged_offset, Kind::tensor));
    if (!offsets || offsets->type != Data::int32 || offsets->sizes != Four{t.sizes[0] + 1, 1, 1, 1}) return {};
    t.offsets = offsets->id;
  }
  return t;
}

/// An operation as a step; empty where something is missing.
std::optional<GraphStep> step_of(const Descriptor& d) {
  GraphStep s;
  s.kind = d.kind;
  const auto take = [&](GraphTensor& into, Attribute name) {
    const auto t = tensor_of(d.link(name, Kind::tensor));
    if (t) into = *t;
    return t.has_value();
  };
  switch (d.kind) {
    case Kind::matmul_operation:
      if (d.link(Attribute::matmul_operation_descriptor, Kind::matmul) == nullptr) return {};
      if (!take(s.x, Attribute::matmul_operation_a) || !take(s.b, Attribute::matmul_operation_b) ||
          !take(s.y, Attribute::matmul_operation_c))
        return {};
      for (const auto& [into, name] : {std::pair(&s.rows, Attribute::matmul_operation_rows),
                                       {&s.columns, Attribute::matmul_operation_columns},
                                       {&s.depth, Attribute::matmul_operation_depth}}) {
        if (!d.values.contains(name)) continue;
        if (!take(*into, name) || into->type != Data::int32 || into->sizes != Four{s.y.sizes[0], 1, 1, 1}) return {};
      }
      break;
    case Kind::reduction_operation: {
      const Descriptor* how = d.link(Attribute::reduction_operation_descriptor, Kind::reduction);
      if (how == nullptr || !take(s.x, Attribute::reduction_operation_x) ||
          !take(s.y, Attribute::reduction_operation_y))
        return {};
      s.mode = how->one<int>(Attribute::reduction_operator).value_or(-1);
      break;
    }
    case Kind::reshape_operation:
      if (!take(s.x, Attribute::reshape_x) || !take(s.y, Attribute::reshape_y)) return {};
      break;
    default: {
      const Descriptor* how = d.link(Attribute::pointwise_operation_descriptor, Kind::pointwise);
      if (how == nullptr || !take(s.x, Attribute::pointwise_operation_x) ||
          !take(s.y, Attribute::pointwise_operation_y))
        return {};
      take(s.b, Attribute::pointwise_operation_b);
      take(s.condition, Attribute::pointwise_operation_condition);
      s.mode = how->one<int>(Attribute::pointwise_mode).value_or(-1);
      s.axis = how->one<std::int64_t>(Attribute::pointwise_axis).value_or(-1);
    }
  }
  return s;
}

int finalize_graph(Descriptor& d) {
  GraphProgram program;
  for (void* const operation : d.all<void*>(Attribute::graph_operations)) {
    const auto& o = *static_cast<const Descriptor*>(operation);
    if (!o.finalized) return refuse(kBadParameter, "an operation is not finalized");
    program.push_back(*step_of(o));
  }
  if (program.empty()) return refuse(kBadParameter, "a graph of nothing");
  d.program = std::make_shared<const GraphProgram>(std::move(program));
  return kSuccess;
}

/// The workspace of a program; empty where there is no kernel for it.
std::optional<std::int64_t> workspace_of(const GraphProgram& program) {
  if (!is_known(program)) return {};
  std::int64_t bytes = kSmallWorkspace;
  if (has_lengths(program)) bytes += 3 * kOfDocument * (program.front().x.sizes[0] + 1);
  int matmuls = 0;
  for (const GraphStep& s : program) {
    const bool matmul = s.kind == Kind::matmul_operation;
    if (matmul && ++matmuls == 5) {  // backward
      const Four& queries = program.front().x.sizes;
      const std::int64_t rows = (queries[2] + 63) / 64 * 64, wide = emulator::capability() < 9 ? 64 : 128;
      if (is_deterministic_backward(program)) {
        if (has_lengths(program) && emulator::capability() < 9) return {};
        bytes += queries[0] * queries[1] * rows * ((queries[2] + wide - 1) / wide * wide) * 2;
      } else if (emulator::capability() < 9) {  // a sum in fp32 of the queries' size
        bytes += queries[0] * queries[1] * queries[2] * queries[3] * 4;
      }
    }
    // The first matmul of forward and backward has a head's width as its depth.
    if (matmul && s.b.id < 100 && s.x.id < 100 && (s.x.sizes[3] > 128 || s.x.sizes[3] % 8 != 0)) return {};
    if (s.kind == Kind::reduction_operation && s.x.sizes[1] != s.y.sizes[1]) {
      bytes += s.x.sizes[0] * s.x.sizes[1] * s.x.sizes[2] * s.x.sizes[3] * 2;
    }
  }
  return bytes;
}

int finalize(Descriptor& d) {
  switch (d.kind) {
    case Kind::tensor:
      return tensor_of(&d) ? kSuccess : refuse(kBadParameter, "a tensor without form, type, id or alignment");
    case Kind::matmul_operation:
    case Kind::reduction_operation:
    case Kind::reshape_operation:
    case Kind::pointwise_operation: {
      const auto step = step_of(d);
      if (!step) return refuse(kBadParameter, "an operation without a tensor, or one that is not finalized");
      return is_consistent(*step) ? kSuccess : refuse(kBadParameter, "an operation whose tensors do not fit");
    }
    case Kind::graph:
      return finalize_graph(d);
    case Kind::heuristic: {
      const Descriptor* graph = d.link(Attribute::heuristic_graph, Kind::graph);
      if (graph == nullptr) return refuse(kBadParameter, "a heuristic without a graph");
      d.program = graph->program;
      return workspace_of(*d.program) ? kSuccess : refuse(kNotSupported, "no kernel for this graph");
    }
    case Kind::plan: {
      const Descriptor* config = d.link(Attribute::plan_engine_config, Kind::engine_config);
      if (config == nullptr || !d.one<void*>(Attribute::plan_handle)) {
        return refuse(kBadParameter, "a plan without an engine or a handle");
      }
      d.program = config->program;
      return kSuccess;
    }
    default:
      return kSuccess;
  }
}

Descriptor& own(void* descriptor) { return *static_cast<Descriptor*>(descriptor); }

}  // namespace

namespace emulator {

void set_cudnn_version(std::size_t wanted) { version = wanted; }
void let_deterministic_backward_drift(int after) { calls_before_drift = after; }
int take_deterministic_backwards() { return deterministic_backwards.exchange(0); }

}  // namespace emulator

extern "C" {

std::size_t cudnnGetVersion() { return version; }

void cudnnGetLastErrorString(char* message, std::size_t size) {
  std::strncpy(message, last_error.c_str(), size - 1);
  message[size - 1] = '\0';
}

int cudnnCreate(cudnnContext** handle) {
  Life::begin();
  *handle = new cudnnContext;
  return kSuccess;
}
int cudnnDestroy(cudnnContext* handle) {
  Life::require("cudnnDestroy");
  delete handle;
  return kSuccess;
}
int cudnnSetStream(cudnnContext* handle, cudaStream_t stream) {
  handle->stream = stream;
  return kSuccess;
}

int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  *descriptor = new Descriptor{static_cast<Kind>(kind), false, {}, {}};
  return kSuccess;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  Life::require("cudnnBackendDestroyDescriptor");
  delete static_cast<Descriptor*>(descriptor);
  return kSuccess;
}

int cudnnBackendSetAttribute(void* descriptor, int name, int type, std::int64_t count, const void* values) {
  Descriptor& d = own(descriptor);
  if (d.finalized) return refuse(kBadParameter, "set after it was finalized");
  if (static_cast<Type>(type) != type_of(static_cast<Attribute>(name)) || count < 1 || values == nullptr) {
    return refuse(kBadParameter, "attribute " + std::to_string(name) + " of another type");
  }
  const auto* bytes = static_cast<const std::byte*>(values);
  d.values[static_cast<Attribute>(name)] = {
      type, count, {bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type)}};
  return kSuccess;
}

int cudnnBackendGetAttribute(void* descriptor, int name, int type, std::int64_t wanted, std::int64_t* count,
                             void* values) {
  const Descriptor& d = own(descriptor);
  if (!d.finalized || static_cast<Type>(type) != type_of(static_cast<Attribute>(name))) {
    return refuse(kBadParameter, "get of another type, or before it was finalized");
  }
  *count = 1;
  if (wanted < 1) return kSuccess;
  if (static_cast<Attribute>(name) == Attribute::plan_workspace) {
    const std::int64_t bytes = *workspace_of(*d.program);
    std::memcpy(values, &bytes, sizeof(bytes));
    return kSuccess;
  }
  Descriptor& config = own(*static_cast<void**>(values));  // Attribute::heuristic_results
  config.program = d.program, config.finalized = true;
  return kSuccess;
}

int cudnnBackendFinalize(void* descriptor) {
  Descriptor& d = own(descriptor);
  const int status = finalize(d);
  d.finalized = status == kSuccess;
  return status;
}

int cudnnBackendExecute(cudnnContext* handle, void* plan, void* pack) {
  const Descriptor &p = own(plan), &given = own(pack);
  if (!p.finalized || !given.finalized) return refuse(kBadParameter, "executed before it was finalized");
  const auto ids = given.all<std::int64_t>(Attribute::pack_ids);
  const auto pointers = given.all<void*>(Attribute::pack_pointers);
  if (ids.size() != pointers.size()) return refuse(kBadParameter, "as many pointers as ids");
  GraphMemory memory;
  for (std::size_t i = 0; i < ids.size(); ++i) memory.addresses[ids[i]] = pointers[i];
  for (const GraphStep& s : *p.program) {
    for (const GraphTensor* t : {&s.x, &s.b, &s.condition, &s.y, &s.rows, &s.columns, &s.depth}) {
      if (t->offsets != 0 && !memory.addresses.contains(t->offsets))
        return refuse(kBadParameter, "no address for offsets " + std::to_string(t->offsets));
      if (t->id == 0 || t->is_virtual) continue;
      const auto found = memory.addresses.find(t->id);
      if (found == memory.addresses.end() || found->second == nullptr) {
        return refuse(kBadParameter, "no address for tensor " + std::to_string(t->id));
      }
      if (t->by_value) {
        std::memcpy(&memory.numbers[t->id], found->second, sizeof(float));
      } else if (reinterpret_cast<std::uintptr_t>(found->second) % 16 != 0) {
        return refuse(kBadParameter, "tensor " + std::to_string(t->id) + " is not aligned");
      }
    }
  }
  void* const workspace = given.one<void*>(Attribute::pack_workspace).value_or(nullptr);
  if (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
    return refuse(kBadParameter, "no aligned workspace");
  }
  const bool deterministic = is_deterministic_backward(*p.program);
  const int call = deterministic ? ++deterministic_backwards : 0;
  const bool drifts = deterministic && calls_before_drift >= 0 && call > calls_before_drift;
  emulator::enqueue(handle->stream, [program = p.program, memory, workspace, drifts] {
    std::memset(workspace, 0xff, static_cast<std::size_t>(*workspace_of(*program)));
    emulator::run(*program, memory);
    if (drifts) *static_cast<std::uint16_t*>(memory.addresses.at(program->back().y.id)) ^= 1;
  });
  return kSuccess;
}

}  // extern "C"
