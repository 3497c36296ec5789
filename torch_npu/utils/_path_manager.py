"""Checks of paths that a program is about to read or write, under the official plugin's names."""

from __future__ import annotations

import os
import shutil
import warnings

__all__ = ["PathManager"]


class PathManager:
    """All functions raise RuntimeError for what cannot be used, and warn of links and missing permissions."""

    DATA_FILE_AUTHORITY = 0o640
    DATA_DIR_AUTHORITY = 0o750

    @classmethod
    def check_directory_path_readable(cls, path):
        cls._check(path, os.R_OK)

    @classmethod
    def check_directory_path_writeable(cls, path):
        cls._check(path, os.W_OK)

    @classmethod
    def check_input_directory_path(cls, path: str):
        if os.path.isfile(path):
            raise RuntimeError(f"expected a folder, but this is a file: {path}")

    @classmethod
    def check_input_file_path(cls, path: str):
        if os.path.isdir(path):
            raise RuntimeError(f"expected a file, but this is a folder: {path}")

    @classmethod
    def check_path_is_readable(cls, path: str):
        return os.access(path, os.R_OK)

    @classmethod
    def check_path_is_writeable(cls, path: str):
        return os.access(path, os.W_OK)

    @classmethod
    def make_dir_safety(cls, path: str):
        cls._warn_of_link(path)
        os.makedirs(path, mode=cls.DATA_DIR_AUTHORITY, exist_ok=True)

    @classmethod
    def create_file_safety(cls, path: str):
        cls._warn_of_link(path)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, cls.DATA_FILE_AUTHORITY))

    @classmethod
    def remove_path_safety(cls, path: str):
        cls._warn_of_link(path)
        if os.path.exists(path):
            shutil.rmtree(path)

    @classmethod
    def remove_file_safety(cls, file: str):
        cls._warn_of_link(file)
        if os.path.exists(file):
            os.remove(file)

    @staticmethod
    def _warn_of_link(path) -> None:
        if os.path.islink(path):
            warnings.warn(f"{path} is a symbolic link", stacklevel=3)

    @classmethod
    def _check(cls, path, mode: int) -> None:
        if not os.path.exists(path):
            raise RuntimeError(f"{path} does not exist")
        cls._warn_of_link(path)
        if not os.access(path, mode):
            warnings.warn(f"this user may not {'read' if mode == os.R_OK else 'write'} {path}", stacklevel=3)
