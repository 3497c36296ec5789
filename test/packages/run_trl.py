"""trl: SFT and DPO of a tiny Llama; the losses are those of the same run on the CPU."""

import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from datasets import Dataset
from tiny import WORDS, make_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

STEPS = {"max_steps": 3, "per_device_train_batch_size": 4, "learning_rate": 1e-2, "logging_steps": 1, "logging_strategy": "steps",
         "report_to": [], "disable_tqdm": True, "save_strategy": "no", "bf16": False, "fp16": False, "seed": 0,
         "dataloader_num_workers": 0, "gradient_checkpointing": False}  # fmt: skip
answers = [" ".join(WORDS[row % 7 : row % 7 + 5]) for row in range(12)]
texts = Dataset.from_dict({"text": answers})
pairs = Dataset.from_dict({"prompt": ["count "] * 12, "chosen": answers, "rejected": answers[::-1]})


def losses(folder: Path, model: str, kind: str, on_cpu: bool) -> torch.Tensor:
    trainer_of, config, data = {"SFT": (SFTTrainer, SFTConfig, texts), "DPO": (DPOTrainer, DPOConfig, pairs)}[kind]
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    arguments = config(output_dir=str(folder / "out"), use_cpu=on_cpu, **STEPS)
    trainer = trainer_of(network, args=arguments, train_dataset=data, processing_class=AutoTokenizer.from_pretrained(model))
    trainer.train()
    assert trainer.model.device.type == ("cpu" if on_cpu else "npu"), trainer.model.device
    return torch.tensor([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])


with tempfile.TemporaryDirectory() as name:
    model = make_model(Path(name) / "model")
    told = []
    for kind in ("SFT", "DPO"):
        npu, cpu = (losses(Path(name), model, kind, on_cpu) for on_cpu in (False, True))
        assert len(npu) == 3 and npu.unique().numel() == 3, npu
        torch.testing.assert_close(npu, cpu, rtol=2e-3, atol=2e-3)  # logged losses are rounded
        told.append(f"{kind} of 3 steps")
print(f"ok: trl {version('trl')}: {' and '.join(told)} on npu: losses as on the CPU")
