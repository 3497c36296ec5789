"""sentence-transformers: sentences encoded by a tiny network, its trainer with a loss of pairs, and encoding again, against the CPU."""

import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses, models
from tiny import WORDS, make_model

sentences = [" ".join(WORDS[i : i + 4]) for i in range(8)]


def run(folder: Path, tiny: str, place: str) -> torch.Tensor:
    words = models.Transformer(tiny, max_seq_length=32)
    words.tokenizer.pad_token = "<pad>"
    model = SentenceTransformer(modules=[words, models.Pooling(words.get_word_embedding_dimension())], device=place)
    first = model.encode(sentences, convert_to_tensor=True)
    assert first.device.type == place, first.device
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / place), max_steps=3, per_device_train_batch_size=4, learning_rate=1e-3, seed=0, report_to=[],
        logging_steps=1, disable_tqdm=True, save_strategy="no", use_cpu=place == "cpu",
    )  # fmt: skip
    pairs = Dataset.from_dict({"anchor": sentences, "positive": sentences[::-1]})
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=pairs, loss=losses.MultipleNegativesRankingLoss(model))
    trainer.train()
    told = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(told) == 3, trainer.state.log_history
    return torch.cat([first.cpu().flatten(), torch.tensor(told), model.encode(sentences, convert_to_tensor=True).cpu().flatten()])


with tempfile.TemporaryDirectory() as name:
    tiny = make_model(Path(name) / "model")
    torch.testing.assert_close(run(Path(name), tiny, "npu"), run(Path(name), tiny, "cpu"), rtol=5e-3, atol=5e-3)
print(f"ok: sentence-transformers {version('sentence-transformers')}: encode(), 3 steps of its trainer, encode(): as on the CPU")
