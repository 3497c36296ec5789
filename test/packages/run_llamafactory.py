"""LLaMA-Factory: `llamafactory-cli train` fine-tunes a tiny model (LoRA), then `export` merges it, all on the npu."""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path

from cli import cli
from tiny import make_dataset, make_model

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    model, _ = make_model(folder / "model"), make_dataset(folder / "tiny.json")
    (folder / "dataset_info.json").write_text(json.dumps({"tiny": {"file_name": "tiny.json"}}))
    common = {"model_name_or_path": model, "template": "default", "trust_remote_code": False, "finetuning_type": "lora"}
    output = cli(
        "llamafactory-cli", "train", **common, stage="sft", do_train=True, lora_rank=4, dataset="tiny", dataset_dir=folder,
        cutoff_len=128, output_dir=folder / "out", per_device_train_batch_size=16, max_steps=3, learning_rate=0.01, logging_steps=1,
        save_steps=3, bf16=True, report_to="none", plot_loss=False, overwrite_output_dir=True,
    )  # fmt: skip
    assert "device: npu:0" in output, output[-2000:]
    log = [json.loads(line) for line in (folder / "out/trainer_log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in log if "loss" in line]
    assert len(losses) == 3 and losses[-1] < losses[0], losses
    cli("llamafactory-cli", "export", **common, adapter_name_or_path=folder / "out", export_dir=folder / "merged")
    assert list((folder / "merged").glob("*.safetensors"))
text = f"LoRA SFT of 3 steps in bfloat16 on npu:0, loss {losses[0]:.3f} to {losses[-1]:.3f}, export"
print(f"ok: llamafactory {version('llamafactory')}: {text}")
