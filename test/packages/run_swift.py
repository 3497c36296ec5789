"""ms-swift: `swift sft` fine-tunes a tiny model on the npu, `swift infer` answers with the result."""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tiny import make_dataset, make_model


def swift(*arguments):
    command = [str(Path(sys.executable).with_name("swift")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit((done.stdout + done.stderr)[-3000:])
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    model, data = make_model(folder / "model"), make_dataset(folder / "tiny.json")
    common = ["--model_type", "llama", "--template", "default", "--torch_dtype", "float32"]
    output = swift(
        "sft", "--model", model, *common, "--dataset", data, "--tuner_type", "lora", "--lora_rank", "4",
        "--output_dir", str(folder / "out"), "--add_version", "false", "--max_steps", "6", "--per_device_train_batch_size", "2",
        "--learning_rate", "0.01", "--logging_steps", "1", "--save_steps", "6", "--max_length", "128", "--dataset_num_proc", "1",
        "--report_to", "none", "--dataloader_num_workers", "0",
    )  # fmt: skip
    log = [json.loads(line) for line in (folder / "out/logging.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in log if "loss" in line]
    assert len(losses) >= 6 and losses[5] < losses[0], losses
    assert "npu:0" in output, output[-2000:]
    swift("infer", "--model", model, *common, "--adapters", str(folder / "out/checkpoint-6"), "--val_dataset", data + "#2",
          "--max_new_tokens", "4", "--result_path", str(folder / "answers.jsonl"), "--attn_impl", "eager")  # fmt: skip
    assert len((folder / "answers.jsonl").read_text().splitlines()) == 2
text = f"LoRA SFT of 6 steps on npu:0, loss {losses[0]:.3f} to {losses[5]:.3f}, inference with the adapter"
print(f"ok: ms-swift {version('ms-swift')}: {text}")
