"""The parts of torch_npu.contrib.transfer_to_npu. Importing them changes nothing; patches.apply() does."""
