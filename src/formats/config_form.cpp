#include "formats/config_form.hpp"

namespace tessera {

namespace {

using Number = ConfigKey::Number;
using Size = ConfigKey::Size;
using Text = ConfigKey::Text;
using Truth = ConfigKey::Truth;
using Use = ConfigKey::Use;
using Nothing = ConfigKey::Nothing;
using A = Architecture;

// clang-format off

constexpr ConfigKey kGpt2Keys[] = {
    {"activation_function", Text{"gelu_new", "gelu_pytorch_tanh"}},
    {"scale_attn_weights", true, Use::read}, {"scale_attn_by_inverse_layer_idx", false, Use::read},
    {"reorder_and_upcast_attn", false, Use::read}, {"add_cross_attention", false, Use::read},
    {"attn_pdrop", Number{&A::dropout}, Use::written}, {"embd_pdrop", Number{&A::dropout}, Use::written},
    {"resid_pdrop", Number{&A::dropout}, Use::written},
    {"layer_norm_epsilon", Number{&A::norm_epsilon, 1e-5}},
    {"n_ctx", Size{&A::context}}, {"n_embd", Size{&A::width}}, {"n_head", Size{&A::heads}},
    {"n_inner", Size{&A::ffn_width}}, {"n_layer", Size{&A::layers}}, {"n_positions", Size{&A::context}},
    {"tie_word_embeddings", Truth{&A::tied_head, true}}, {"vocab_size", Size{&A::vocab}},
};

/// Of the families that rotate positions.
constexpr ConfigKey kRotaryKeys[] = {
    {"attention_dropout", Number{&A::dropout}, Use::written}, {"hidden_act", Text{"silu"}},
    {"hidden_size", Size{&A::width}}, {"intermediate_size", Size{&A::ffn_width}},
    {"max_position_embeddings", Size{&A::context}}, {"num_attention_heads", Size{&A::heads}},
    {"num_hidden_layers", Size{&A::layers}}, {"num_key_value_heads", Size{&A::kv_heads}},
    {"rms_norm_eps", Number{&A::norm_epsilon, 1e-6}}, {"rope_theta", Number{&A::rope_theta, 10000.0}},
    {"tie_word_embeddings", Truth{&A::tied_head, false}}, {"vocab_size", Size{&A::vocab}},
};
constexpr ConfigKey kHeadWidthKey[] = {
    {"head_dim", Size{&A::head_dim}, Use::read},
};
constexpr ConfigKey kQwen3Keys[] = {
    {"attention_bias", Truth{&A::attention_bias, false}}, {"head_dim", Size{&A::head_dim, 128}},
};
/// With Transformers' usual values, which a text_config leaves out.
constexpr ConfigKey kGemma3Keys[] = {
    {"attention_bias", Truth{&A::attention_bias, false}}, {"attention_dropout", Number{&A::dropout}, Use::written},
    {"attn_logit_softcapping", Nothing{}, Use::read}, {"final_logit_softcapping", Nothing{}, Use::read},
    {"use_bidirectional_attention", false, Use::read}, {"head_dim", Size{&A::head_dim, 256}},
    {"hidden_activation", Text{"gelu_pytorch_tanh"}}, {"hidden_size", Size{&A::width, 2304}},
    {"intermediate_size", Size{&A::ffn_width, 9216}}, {"max_position_embeddings", Size{&A::context, 131072}},
    {"num_attention_heads", Size{&A::heads, 8}}, {"num_hidden_layers", Size{&A::layers, 26}},
    {"num_key_value_heads", Size{&A::kv_heads, 4}}, {"rms_norm_eps", Number{&A::norm_epsilon, 1e-6}},
    {"rope_local_base_freq", Number{&A::rope_local_theta, 1e4}}, {"rope_theta", Number{&A::rope_theta, 1e6}},
    {"tie_word_embeddings", Truth{&A::tied_head, true}}, {"vocab_size", Size{&A::vocab, 262208}},
};
constexpr ConfigKey kLlamaKeys[] = {
    {"attention_bias", Truth{&A::attention_bias, false}, Use::read}, {"head_dim", Size{&A::head_dim}, Use::read},
    {"mlp_bias", Truth{&A::mlp_bias, false}, Use::read},
};

/// In the order of Family.
constexpr ConfigForm kForms[] = {
    {"gpt2", "GPT2LMHeadModel", {"GPT2"}, {kGpt2Keys}},
    {"qwen2", "Qwen2ForCausalLM", {"Qwen2For", "Qwen2Model"}, {kRotaryKeys, kHeadWidthKey}, {4096, true}},
    {"llama", "LlamaForCausalLM", {"Llama"}, {kLlamaKeys, kRotaryKeys}},
    {"qwen3", "Qwen3ForCausalLM", {"Qwen3For", "Qwen3Model"}, {kRotaryKeys, kQwen3Keys}, {4096, true}},
    {"mistral", "MistralForCausalLM", {"Mistral"}, {kRotaryKeys, kHeadWidthKey}, {4096}},
    {"gemma3_text", "Gemma3ForCausalLM", {"Gemma3ForCausalLM", "Gemma3TextModel"}, {kGemma3Keys}, {4096}, "gemma3", 256},
};

// clang-format on

}  // namespace

const ConfigForm& config_form(Family family) { return kForms[static_cast<std::size_t>(family)]; }

}  // namespace tessera
