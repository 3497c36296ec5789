"""Fine-tunes a small, randomly initialised GPT-2 with the Trainer of transformers. Trainer finds the npu by itself.

pip install transformers accelerate
"""

import argparse
import json
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Counting(torch.utils.data.Dataset):
    """Sequences that count upwards from somewhere: easy to learn, so the loss shows that learning happens."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        tokens = (torch.arange(16) + index) % 50
        return {"input_ids": tokens, "labels": tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--losses", help="file for the logged losses")
    options = parser.parse_args()

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, num_train_epochs=options.epochs, per_device_train_batch_size=16, learning_rate=5e-3,
                                      logging_steps=4, save_strategy="no", report_to=[], use_cpu=options.cpu, disable_tqdm=True)
        trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Counting())
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    model = trainer.model.eval()
    prompt = torch.tensor([[7, 8, 9]], device=model.device)
    print("counts on:", model.generate(prompt, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None)[0].tolist())
    print(f"trained on {model.device}: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    if options.losses:
        with open(options.losses, "w") as file:
            json.dump([float(loss) for loss in losses], file)


if __name__ == "__main__":
    main()
