"""transformers' Trainer: four steps of a random GPT-2 of two layers, on npu and on the CPU."""

import tempfile

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        tokens = torch.arange(12) * (index + 1) % 50
        return {"input_ids": tokens, "labels": tokens}


def losses(cpu):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(folder, max_steps=4, per_device_train_batch_size=4, logging_steps=1, report_to=[], use_cpu=cpu, seed=1)
        trainer = Trainer(GPT2LMHeadModel(config), options, train_dataset=Sentences())
        trainer.train()
        assert trainer.model.device.type == ("cpu" if cpu else "npu"), trainer.model.device
        return torch.tensor([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])


on_npu, on_cpu = losses(False), losses(True)
torch.testing.assert_close(on_npu, on_cpu, rtol=1e-3, atol=1e-3)
print(f"transformers {transformers.__version__}, losses {on_npu.tolist()}")
