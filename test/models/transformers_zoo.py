"""Networks of the transformers library in tiny, randomly initialised configurations. Empty where it is not installed."""

import torch
from network import Network

try:
    import transformers as hf
except ImportError:
    hf = None


def text(words=64, batch=4, length=16):
    return lambda g: (torch.randint(4, words, (batch, length), generator=g),)


def language_loss(model, batch):
    return model(input_ids=batch[0], labels=batch[0]).loss


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
QUIET = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                                            attn_pdrop=0.0, bos_token_id=0, eos_token_id=1))


def bert():
    return hf.BertForMaskedLM(hf.BertConfig(vocab_size=64, max_position_embeddings=64, **SIZES, **QUIET))


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=64, max_position_embeddings=64, num_key_value_heads=2, **SIZES))


def vit():
    return hf.ViTForImageClassification(hf.ViTConfig(image_size=32, patch_size=8, num_labels=10, **SIZES, **QUIET))


def t5():
    return hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                                     dropout_rate=0.0, decoder_start_token_id=0))


def whisper():
    config = hf.WhisperConfig(vocab_size=64, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                              decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=32,
                              max_target_positions=32, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, pad_token_id=0,
                              bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=None, begin_suppress_tokens=None)
    return hf.WhisperForConditionalGeneration(config)


def qwen3():
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(vocab_size=64, max_position_embeddings=64, num_key_value_heads=2, head_dim=8, **SIZES))


def mixtral():
    return hf.MixtralForCausalLM(hf.MixtralConfig(vocab_size=64, max_position_embeddings=64, num_key_value_heads=2, num_local_experts=4,
                                                  **SIZES))


def convnext():
    return hf.ConvNextForImageClassification(hf.ConvNextConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 2, 1], num_labels=10))


def clip():
    text_part = {**SIZES, "vocab_size": 64, "max_position_embeddings": 16, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    return hf.CLIPModel(hf.CLIPConfig(text_config=text_part, vision_config={**SIZES, "image_size": 32, "patch_size": 8}, projection_dim=16))


def pairs(g):
    return torch.randint(4, 64, (4, 12), generator=g), torch.randn(4, 3, 32, 32, generator=g)


def pictures(g):
    return torch.randn(4, 3, 32, 32, generator=g), torch.randint(10, (4,), generator=g)


def sounds(g):
    return torch.randn(2, 16, 64, generator=g), torch.randint(4, 64, (2, 12), generator=g)


NETWORKS = [] if hf is None else [
    Network("gpt2", gpt2, text(), language_loss),
    Network("bert", bert, text(), language_loss),
    Network("llama", llama, text(), language_loss),
    Network("vit", vit, pictures, lambda m, b: m(pixel_values=b[0], labels=b[1]).loss),
    Network("t5", t5, text(), language_loss),
    Network("whisper", whisper, sounds, lambda m, b: m(input_features=b[0], labels=b[1]).loss),
    Network("qwen3", qwen3, text(), language_loss),
    Network("mixtral", mixtral, text(), language_loss),
    Network("convnext", convnext, pictures, lambda m, b: m(pixel_values=b[0], labels=b[1]).loss),
    Network("clip", clip, pairs, lambda m, b: m(input_ids=b[0], pixel_values=b[1], return_loss=True).loss),
]
