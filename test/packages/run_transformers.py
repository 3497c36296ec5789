"""transformers: its own attention for npu ("flash_attention_2"), a mixture of experts, `device_map` and generate(), against the CPU."""

import tempfile
from importlib.metadata import version

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3MoeConfig

SIZES = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 1, "output_router_logits": True}
tokens = torch.randint(4, 64, (2, 12), generator=torch.Generator().manual_seed(0))
padded = torch.ones_like(tokens).index_put_((torch.tensor([1]), torch.arange(3)), torch.tensor(0))  # which the attention takes apart


def loss_and_gradient(model, place, mask):
    loss = model(input_ids=tokens.to(place), attention_mask=mask.to(place), labels=tokens.to(place)).loss
    loss.backward()
    return torch.cat([loss.detach().cpu().float()[None], model.model.layers[0].self_attn.q_proj.weight.grad.cpu().float().flatten()])


def compare(config, attention, dtype, tolerance):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        cpu = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        npu = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map="npu:0", attn_implementation=attention)
    assert npu.device == torch.device("npu:0") and npu.config._attn_implementation == attention
    for mask in (torch.ones_like(tokens), padded):
        found, expected = loss_and_gradient(npu, "npu:0", mask), loss_and_gradient(cpu, "cpu", mask)
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        npu.zero_grad()
        cpu.zero_grad()
    if dtype == torch.float32:
        words = [model.generate(tokens[:1].to(model.device), max_new_tokens=8, do_sample=False).tolist() for model in (npu, cpu)]
        assert words[0] == words[1], words


compare(LlamaConfig(**SIZES), "flash_attention_2", torch.bfloat16, 3e-2)
compare(LlamaConfig(**SIZES), "sdpa", torch.float32, 1e-4)
compare(Qwen3MoeConfig(**SIZES, **EXPERTS, head_dim=16), "sdpa", torch.float32, 1e-4)
text = "flash_attention_2 in bfloat16, Qwen3-MoE with router loss, device_map, generate()"
print(f"ok: transformers {version('transformers')}: {text}: losses, gradients and tokens of the CPU")
