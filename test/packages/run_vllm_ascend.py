"""vllm with vllm-ascend: its engine serves a tiny Qwen2 on one card and on two; tokens of the CPU.

vllm-ascend's compiled kernels need CANN's compiler: vllm_ascend_C.py stands in for them, and for nothing else.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tiny import make_model

PROMPTS = [[5, 6, 7, 8], list(range(10, 40)), [5, 6, 7, 9, 11], list(range(40, 180))]  # the last is longer than a block of the cache
NEW = 12
# vllm-ascend's compiler is for torch 2.10, and hands on to CANN's: the model runs as it is written, and its decoding steps are captured.
CAPTURED = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4]}
MODES = {
    "one card": {"enforce_eager": True},
    # With a process for each rank from torchrun: the queue of vllm's own executor may lose a wake-up on a busy machine.
    "tensor parallel 2": {"enforce_eager": True, "tensor_parallel_size": 2, "distributed_executor_backend": "external_launcher"},
    "one card, captured graphs": {"enforce_eager": False, "compilation_config": CAPTURED},
}


def serve(model: str, options: dict) -> list[list[int]]:
    from vllm import LLM, SamplingParams

    llm = LLM(
        model, dtype="float16", max_model_len=256, max_num_seqs=4, max_num_batched_tokens=64, block_size=128, gpu_memory_utilization=0.5,
        **options,
    )  # fmt: skip
    greedy = SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True)
    return [list(answer.outputs[0].token_ids) for answer in llm.generate([{"prompt_token_ids": p} for p in PROMPTS], greedy)]


def on_the_cpu(model: str) -> list[list[int]]:
    import torch
    from transformers import Qwen2ForCausalLM

    network = Qwen2ForCausalLM.from_pretrained(model, dtype=torch.float32)
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 3}
    return [network.generate(torch.tensor([prompt]), **options)[0, len(prompt) :].tolist() for prompt in PROMPTS]


def make_qwen2(folder: Path) -> str:
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    words = len(AutoTokenizer.from_pretrained(make_model(folder)))
    torch.manual_seed(44)  # at every step the best word is ahead of the next by 0.09 or more: float16 finds the same
    config = Qwen2Config(
        vocab_size=words, hidden_size=256, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=3, initializer_range=0.2,
    )  # fmt: skip
    Qwen2ForCausalLM(config).half().save_pretrained(folder)
    return str(folder)


def main() -> None:
    import vllm_ascend

    here = Path(__file__).resolve()
    shutil.copy(here.with_name("vllm_ascend_C.py"), Path(vllm_ascend.__file__).with_name("vllm_ascend_C.py"))
    # The engine measures what the model leaves of a card's memory: a small card that no other process fills.
    cards = {"SOFTNPU_DEVICES": "2", "SOFTNPU_MEMORY": "4G", "SOFTNPU_POOL": f"vllm-{os.getpid()}"}
    environment = {**os.environ, **cards, "VLLM_PLUGINS": "ascend", "VLLM_NO_USAGE_STATS": "1"}
    modes, failed = sys.argv[1:] or list(MODES), []
    with tempfile.TemporaryDirectory() as name:
        model = make_qwen2(Path(name) / "model")
        expected = on_the_cpu(model)
        assert len({token for row in expected for token in row}) > NEW, f"too few different tokens to tell anything: {expected}"
        environment["VLLM_CACHE_ROOT"] = name
        for mode in modes:
            ranks = MODES[mode].get("tensor_parallel_size", 1)
            launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
            command = [sys.executable, *launcher, here, "--serve", model, json.dumps(MODES[mode])]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            print(done.stdout, done.stderr, file=sys.stderr)
            tokens = [json.loads(line[8:]) for line in done.stdout.splitlines() if line.startswith("tokens: ")]
            if tokens != [expected] * ranks:
                failed.append(f"{mode}: tokens {tokens}, on the CPU {expected}" if tokens else f"{mode}: does not serve")
    if failed:
        sys.exit("; ".join(failed))
    text = f"Qwen2 of 2 layers, {len(PROMPTS)} prompts, {NEW} tokens each: {'; '.join(modes)}: the CPU's tokens"
    print(f"ok: vllm-ascend {version('vllm-ascend')} with vllm {version('vllm')}: {text}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        print(f"tokens: {json.dumps(serve(sys.argv[2], json.loads(sys.argv[3])))}\n", end="", flush=True)
    else:
        main()
