"""A language model, a tokenizer and a dataset of a few kilobytes, made on the spot: nothing is downloaded."""

import json
from pathlib import Path

WORDS = "the a npu trains model small on data and learns to add count words of one two three four five".split()


def make_model(folder: Path) -> str:
    """A Llama of 2 layers with random weights, with its tokenizer, as save_pretrained() writes them."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=256
    )
    fast.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder)


def make_dataset(file: Path, rows: int = 16) -> str:
    """Instructions and answers, in the form of alpaca."""
    file.write_text(json.dumps([
        {"instruction": f"count {WORDS[row % len(WORDS)]}", "input": "", "output": " ".join(WORDS[row % 7 : row % 7 + 5])}
        for row in range(rows)
    ]))  # fmt: skip
    return str(file)
