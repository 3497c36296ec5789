"""LLaMA-Factory: `llamafactory-cli train` fine-tunes a tiny model (LoRA), then `export` merges it, all on the npu."""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tiny import make_dataset, make_model


def cli(*arguments):
    flags = [part for argument in arguments[1:] for part in ("--" + argument).split("=", 1)]
    command = [str(Path(sys.executable).with_name("llamafactory-cli")), arguments[0], *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        sys.exit((done.stdout + done.stderr)[-3000:])
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    model, _ = make_model(folder / "model"), make_dataset(folder / "tiny.json")
    (folder / "dataset_info.json").write_text(json.dumps({"tiny": {"file_name": "tiny.json"}}))
    common = [f"model_name_or_path={model}", "template=default", "trust_remote_code=false"]
    output = cli(
        "train", *common, "stage=sft", "do_train=true", "finetuning_type=lora", "lora_rank=4", "dataset=tiny", f"dataset_dir={folder}",
        "cutoff_len=128", f"output_dir={folder / 'out'}", "per_device_train_batch_size=2", "max_steps=6", "learning_rate=0.01",
        "logging_steps=1", "save_steps=6", "bf16=true", "report_to=none", "plot_loss=false", "overwrite_output_dir=true",
    )  # fmt: skip
    assert "device: npu:0" in output, output[-2000:]
    log = [json.loads(line) for line in (folder / "out/trainer_log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in log if "loss" in line]
    assert len(losses) == 6 and losses[-1] < losses[0], losses
    cli("export", *common, f"adapter_name_or_path={folder / 'out'}", "finetuning_type=lora", f"export_dir={folder / 'merged'}")
    assert list((folder / "merged").glob("*.safetensors"))
text = f"LoRA SFT of 6 steps in bfloat16 on npu:0, loss {losses[0]:.3f} to {losses[-1]:.3f}, export"
print(f"ok: llamafactory {version('llamafactory')}: {text}")
