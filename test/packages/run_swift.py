"""ms-swift: `swift sft` fine-tunes a tiny model (LoRA) on the npu, `swift infer` answers with the result."""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path

from cli import cli
from tiny import make_dataset, make_model

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    model, data = make_model(folder / "model"), make_dataset(folder / "tiny.json")
    common = {"model": model, "model_type": "llama", "template": "default", "torch_dtype": "float32"}
    # check_model asks modelscope.cn whether the model is its newest, and without an answer asks again and again.
    output = cli(
        "swift", "sft", **common, dataset=data, tuner_type="lora", lora_rank=4, output_dir=folder / "out", add_version=False,
        max_steps=3, per_device_train_batch_size=16, gradient_accumulation_steps=1, learning_rate=0.01, logging_steps=1, save_steps=3,
        max_length=128, dataset_num_proc=1, dataloader_num_workers=0, report_to="none", check_model=False,
    )  # fmt: skip
    assert "npu:0" in output, output[-2000:]
    log = [json.loads(line) for line in (folder / "out/logging.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in log if "loss" in line]
    assert len(losses) == 3 and losses[-1] < losses[0], losses
    cli("swift", "infer", **common, adapters=folder / "out/checkpoint-3", val_dataset=f"{data}#2", max_new_tokens=4,
        result_path=folder / "answers.jsonl")  # fmt: skip
    assert len((folder / "answers.jsonl").read_text().splitlines()) == 2
text = f"LoRA SFT of 3 steps on npu:0, loss {losses[0]:.3f} to {losses[-1]:.3f}, inference with the adapter"
print(f"ok: ms-swift {version('ms-swift')}: {text}")
