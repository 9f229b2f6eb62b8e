#include "tessera/config/choices.hpp"

namespace tessera {

// Defines choices<E>() for the given list.
#define TESSERA_CHOICES(E, ...)                      \
  template <>                                        \
  std::span<const Choice<E>> choices<E>() {          \
    static constexpr Choice<E> list[] = __VA_ARGS__; \
    return list;                                     \
  }

TESSERA_CHOICES(bool, {{true, "true"}, {false, "false"}})
TESSERA_CHOICES(DeviceChoice,
                {{DeviceChoice::automatic, "auto"}, {DeviceChoice::cpu, "cpu"}, {DeviceChoice::cuda, "cuda"}})
TESSERA_CHOICES(Deterministic,
                {{Deterministic::automatic, "auto"}, {Deterministic::yes, "true"}, {Deterministic::no, "false"}})
TESSERA_CHOICES(AttentionChoice, {{AttentionChoice::automatic, "auto"},
                                  {AttentionChoice::own, "own"},
                                  {AttentionChoice::cudnn, "cudnn"}})
TESSERA_CHOICES(CommBackend,
                {{CommBackend::automatic, "auto"}, {CommBackend::nccl, "nccl"}, {CommBackend::staged, "staged"}})
TESSERA_CHOICES(LaneMode, {{LaneMode::automatic, "auto"},
                           {LaneMode::serial, "serial"},
                           {LaneMode::chaos, "chaos"},
                           {LaneMode::parallel, "parallel"}})
#define TESSERA_ROW(enumerator, name, ...) {Strategy::enumerator, name},
TESSERA_CHOICES(Strategy, {TESSERA_STRATEGIES(TESSERA_ROW)})
#undef TESSERA_ROW
TESSERA_CHOICES(Wrap, {{Wrap::block, "block"}, {Wrap::size, "size"}, {Wrap::model, "model"}})
TESSERA_CHOICES(ReduceWhen,
                {{ReduceWhen::by_strategy, "auto"}, {ReduceWhen::micro_step, "micro_step"}, {ReduceWhen::step, "step"}})
TESSERA_CHOICES(TiedReduce, {{TiedReduce::once, "once"}, {TiedReduce::twice, "twice"}})
TESSERA_CHOICES(ActivationCheckpointing,
                {{ActivationCheckpointing::none, "none"}, {ActivationCheckpointing::block, "block"}})
TESSERA_CHOICES(DirectWrites,
                {{DirectWrites::automatic, "auto"}, {DirectWrites::yes, "true"}, {DirectWrites::no, "false"}})
TESSERA_CHOICES(SampleOrder, {{SampleOrder::shuffled, "shuffled"}, {SampleOrder::sequential, "sequential"}})
TESSERA_CHOICES(LearningRateSchedule, {{LearningRateSchedule::constant, "constant"},
                                       {LearningRateSchedule::cosine, "cosine"},
                                       {LearningRateSchedule::linear, "linear"},
                                       {LearningRateSchedule::wsd, "wsd"}})
TESSERA_CHOICES(PlanView, {{PlanView::table, "table"}, {PlanView::schedule, "schedule"}, {PlanView::units, "units"}})
TESSERA_CHOICES(PlanFormat, {{PlanFormat::text, "text"}, {PlanFormat::json, "json"}})
TESSERA_CHOICES(SweepAction, {{SweepAction::print, "print"},
                              {SweepAction::run, "run"},
                              {SweepAction::submit, "submit"},
                              {SweepAction::status, "status"},
                              {SweepAction::retry, "retry"},
                              {SweepAction::row, "row"}})
TESSERA_CHOICES(DType, {{DType::fp32, "fp32"}, {DType::bf16, "bf16"}, {DType::fp16, "fp16"}})

#undef TESSERA_CHOICES

std::string_view name_of(DeviceChoice value) { return spelling(value); }
std::string_view name_of(Deterministic value) { return spelling(value); }
std::string_view name_of(AttentionChoice value) { return spelling(value); }
std::string_view name_of(CommBackend value) { return spelling(value); }
std::string_view name_of(LaneMode value) { return spelling(value); }
std::string_view name_of(DirectWrites value) { return spelling(value); }
std::string_view name_of(Wrap value) { return spelling(value); }
std::string_view name_of(ReduceWhen value) { return spelling(value); }
std::string_view name_of(TiedReduce value) { return spelling(value); }
std::string_view name_of(ActivationCheckpointing value) { return spelling(value); }
std::string_view name_of(SampleOrder value) { return spelling(value); }
std::string_view name_of(LearningRateSchedule value) { return spelling(value); }
std::string_view name_of(PlanView value) { return spelling(value); }
std::string_view name_of(PlanFormat value) { return spelling(value); }
std::string_view name_of(SweepAction value) { return spelling(value); }

}  // namespace tessera
