"""The client under test is the published wheel, as published."""

import base64
import hashlib
import importlib.metadata

import torch_npu


def check_wheel_is_unmodified():
    package = importlib.metadata.distribution("torch-npu")
    assert package.version == "2.13.0"
    hashed = [file for file in package.files if file.hash and not file.name.endswith(".pyc")]
    assert any(file.name == "libtorch_npu.so" for file in hashed)
    for file in hashed:
        digest = hashlib.new(file.hash.mode, file.locate().read_bytes()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value, file


def check_wheel_is_the_one_imported():
    package = importlib.metadata.distribution("torch-npu")
    assert str(package.locate_file("torch_npu")) == torch_npu.__path__[0]
